"""Secrets from OpenBao, from the command line: keys of vaults, environments of jobs; nothing of them stays behind."""

from __future__ import annotations

import pytest

from bridgehead.drivers.openbao import OpenBaoSecrets, options_of
from bridgehead.runbook import state as st
from bridgehead.testing.openbao_server import openbao

pytestmark = pytest.mark.server("bao")
VALUE = "s3cret-of-the-registry"


@pytest.fixture
def server(line):
    with openbao(line.folder) as server:
        server.put("registry", password=VALUE)
        server.put("vault", passphrase="correct horse battery")
        line.env |= server.role(token_ttl="30s")
        yield server


def left_behind(line, text: str) -> list[str]:
    """Files with this text, those of the server apart."""
    files = [path for path in line.folder.rglob("*") if path.is_file() and path.name != "openbao.log"]
    return [str(path) for path in files if text.encode() in path.read_bytes()]


def job_with_secret(line, reference: str) -> dict[str, object]:
    out = line.folder / "digest"
    command = ["sh", "-c", f'printf %s "$REGISTRY_PASSWORD" | sha256sum > {out}.part && mv {out}.part {out}; exec sleep 1000']
    job = {"name": "serve", "command": command, "env": {"REGISTRY_PASSWORD": reference}}
    return {"id": "start-serve", "action": "job.start", "with": {"site": "fra", "job": job}, "deadline": "5 s"}


def test_a_job_gets_the_value_and_nobody_else_does(line, steps, server) -> None:
    import hashlib

    started = line.start([job_with_secret(line, "secret://kv/bridgehead/registry#password"), steps.approval(needs=("start-serve",))])
    line.until_step("move", "agree", st.Asking)
    digest = line.folder / "digest"
    while not digest.exists():
        assert started.process.poll() is None
    assert digest.read_text().split()[0] == hashlib.sha256(VALUE.encode()).hexdigest()
    assert line.run("run", "approve", "move", "agree", "--as", "ann").returncode == 0
    assert started.end().returncode == 0
    shown = line.run("ledger", "show", "move", "--json")
    assert "secret://kv/bridgehead/registry#password" in shown.stdout
    assert VALUE not in shown.stdout
    assert left_behind(line, VALUE) == []


def test_a_secret_that_is_not_there_starts_no_job_and_is_named(line, steps, server) -> None:
    ended = line.start([job_with_secret(line, "secret://kv/bridgehead/registry#passwort")]).end()
    assert ended.returncode == 1
    text = line.run("run", "status", "move").stdout + line.run("ledger", "show", "move", "--json").stdout
    assert "it has no field 'passwort'" in text
    assert VALUE not in text
    assert type(line.job("fra", "serve")).__name__ == "JobAbsent"


def test_the_passphrase_of_a_vault_comes_from_the_server(line, server) -> None:
    vault = line.folder / "vault"
    key = "--key-file=openbao:kv/bridgehead/vault#passphrase"
    for words in (("init", vault, "--encrypt"), ("verify", vault)):
        done = line.run("vault", *words, key)
        assert done.returncode == 0, done.stderr
    assert left_behind(line, "correct horse battery") == []
    assert line.run("vault", "verify", vault, env={"BRIDGEHEAD_PASSPHRASE": "wrong"}).returncode == 2
    missing = line.run("vault", "verify", vault, "--key-file", "openbao:kv/bridgehead/nothing#passphrase")
    assert (missing.returncode, "there is nothing" in missing.stderr) == (6, True), missing.stderr
    server.seal()
    sealed = line.run("vault", "verify", vault, key)
    assert (sealed.returncode, "the server is sealed" in sealed.stderr) == (7, True), sealed.stderr


def test_a_key_that_transit_wrapped_opens_a_vault_only_with_the_server(line, server) -> None:
    wrapped = line.folder / "vault.key.wrapped"
    wrapped.write_text(OpenBaoSecrets(options_of(line.env)).wrap("transit/vault", bytes(range(32))))
    vault, key = line.folder / "vault", f"openbao:transit/vault@{wrapped}"
    assert line.run("vault", "init", vault, "--encrypt", env={"BRIDGEHEAD_KEY_FILE": key}).returncode == 0
    assert line.run("vault", "verify", vault, env={"BRIDGEHEAD_KEY_FILE": key}).returncode == 0
    (line.folder / "raw.key").write_bytes(bytes(range(32)))
    assert line.run("vault", "verify", vault, "--key-file", line.folder / "raw.key").returncode == 0
