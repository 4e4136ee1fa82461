"""What ``bridgehead vault`` prints, word for word: ``vault_cli/messages.txt``, with times, random ids and rates left out.

``BRIDGEHEAD_WRITE_GOLDEN=1`` writes it anew; read the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from pathlib import Path

import pytest

from bridgehead.cli.main import call

GOLDEN = Path(__file__).parent / "vault_cli" / "messages.txt"
ROOT = Path(__file__).resolve().parents[2]
CHECKPOINTS = ROOT / "examples" / "checkpoints"
COMMANDS = """
init v
init v
list v
save v step-100 --workload toy --step 100 --site lab --context loss=2.31 commit=4f2a91c
save v step-100 --workload toy --step 100 --site lab
save v step-200 --workload toy --step 200 --site lab
save v step-200 --workload toy --step 150 --site lab
save v step-100 --workload toy --step 150 --site lab
save v cut.safetensors --workload cut --step 1 --site lab
save v linked --workload toy --step 300 --site lab
list v
show v toy
show v toy --hash
show v toy@150
show v toy@175
show v cut
diff v toy@200 toy@latest
diff v toy@100 toy@200
diff v toy@100 toy@200 --all
restore v toy --to out
restore v toy@200 --to out
restore v toy@100 --to out
restore v toy --to some --tensor norm.weight
restore v toy --to none --tensor norm.wieght
cat v toy trainer.json
verify v
verify v --read-data
receipt v toy --site lab
init w
replicate v w --site cellar
replicate v w --site cellar
status v
damage v
verify v
verify v --read-data
restore v toy --to hurt
replicate v w --site cellar --heal
replicate v nowhere
list s3://Bucket/vault
status nowhere
"""
VOLATILE = [(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "TIME"), (r"\b[0-9a-f]{32}\b", "ID"), (r"[\d.]+ (ms|us|s) old", "N s old")]


def prepare(folder: Path) -> None:
    for step in ("step-100", "step-200"):
        (folder / step).mkdir()
        for file in sorted((CHECKPOINTS / step).iterdir()):
            (folder / step / file.name).write_bytes(file.read_bytes())
            (folder / step / file.name).chmod(0o644)  # whatever the umask of the checkout
    (folder / "cut.safetensors").write_bytes((CHECKPOINTS / "step-100" / "model.safetensors").read_bytes()[:500])
    (folder / "linked").mkdir()
    (folder / "linked" / "all").symlink_to("../step-100")


def damage(folder: Path) -> None:
    """Flip a bit in the largest block, which holds tensors; both checkpoints have one of that size, and the first by name is taken."""
    block = max(sorted((folder / "v" / "data").glob("*/*")), key=lambda path: path.stat().st_size)
    data = bytearray(block.read_bytes())
    data[100] ^= 1
    block.write_bytes(bytes(data))


def carried_out(words: list[str]) -> tuple[int, str]:
    """Exit code and what was printed, stdout before stderr."""
    out, err = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = call(["vault", *words])
    out.seek(0)
    return code, out.read() + err.getvalue()


def transcript(folder: Path) -> str:
    """All commands with what they print."""
    lines = []
    prepare(folder)
    for line in COMMANDS.strip().splitlines():
        if line == "damage v":
            damage(folder)
            continue
        code, text = carried_out(shlex.split(line))
        text = text.replace(f"{ROOT}/", "")
        for pattern, word in VOLATILE:
            text = re.sub(pattern, word, text)
        lines += [f"$ bridgehead vault {line}", *[part.rstrip() for part in text.splitlines()], f"[exit code {code}]", ""]
    return "\n".join(lines)


def test_messages_are_as_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BRIDGEHEAD_EPOCH", raising=False)
    found = transcript(tmp_path)
    if os.environ.get("BRIDGEHEAD_WRITE_GOLDEN") == "1":
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")
