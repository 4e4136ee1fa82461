"""Snapshots as OpenSSF model-signing bundles, verified by the package of that project where it is installed."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from bridgehead.cli.main import call

PEM, PKCS8, PUBLIC = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.PublicFormat.SubjectPublicKeyInfo
HAS_PACKAGE = all(importlib.util.find_spec(name) for name in ("model_signing", "OpenSSL"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    key = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "key.pem").write_bytes(key.private_bytes(PEM, PKCS8, serialization.NoEncryption()))
    (tmp_path / "key.pub").write_bytes(key.public_key().public_bytes(PEM, PUBLIC))
    (tmp_path / "w" / "sub").mkdir(parents=True)
    (tmp_path / "w" / "model.bin").write_bytes(b"weights" * 300_000)
    (tmp_path / "w" / "sub" / "config.json").write_text("{}")
    (tmp_path / "w" / "empty").write_bytes(b"")
    assert call(["vault", "init", "v"]) == 0
    assert call(["vault", "save", "v", "w", "--workload", "llm", "--step", "7"]) == 0
    return tmp_path


def export(*words: str) -> int:
    return call(["vault", "keys", "export", "v", "llm", "--private-key", "key.pem", "--to", "model.sig", *words])


def test_bundle_is_signed_over_the_hash_of_each_file(folder: Path) -> None:
    assert export() == 0
    bundle = json.loads((folder / "model.sig").read_text())
    envelope = bundle["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    public = serialization.load_pem_public_key((folder / "key.pub").read_bytes())
    assert isinstance(public, ec.EllipticCurvePublicKey)
    signed = b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    public.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
    with pytest.raises(InvalidSignature):
        public.verify(signature, signed + b" ", ec.ECDSA(hashes.SHA256()))
    resources = {one["name"]: one["digest"] for one in json.loads(payload)["predicate"]["resources"]}
    expected = {path: hashlib.sha256((folder / "w" / path).read_bytes()).hexdigest() for path in ("empty", "model.bin", "sub/config.json")}
    assert resources == expected


@pytest.mark.skipif(not HAS_PACKAGE, reason="the packages model-signing and pyopenssl are not installed")
def test_the_package_of_openssf_accepts_it_and_refuses_a_changed_file(folder: Path) -> None:
    import model_signing

    assert export() == 0
    assert call(["vault", "restore", "v", "llm", "--to", "out"]) == 0
    model_signing.verifying.Config().use_elliptic_key_verifier(public_key=folder / "key.pub").verify("out", "model.sig")
    (folder / "out" / "model.bin").write_bytes(b"Weights" * 300_000)
    with pytest.raises(ValueError, match=r"model\.bin"):
        model_signing.verifying.Config().use_elliptic_key_verifier(public_key=folder / "key.pub").verify("out", "model.sig")


def test_other_keys_links_and_files_that_are_there_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "key.pem").rename(folder / "good.pem")
    assert export() == 2
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(PEM, PKCS8, serialization.NoEncryption())
    for data, happened in ((other, "no ECDSA key"), (b"x", "no private key"), ((folder / "key.pub").read_bytes(), "no private key")):
        (folder / "key.pem").write_bytes(data)
        capsys.readouterr()
        assert export() == 2
        assert happened in capsys.readouterr().err
    assert not (folder / "model.sig").exists()
    (folder / "good.pem").replace(folder / "key.pem")
    assert export() == 0
    assert export() == 2
    assert "there already" in capsys.readouterr().err
    (folder / "w" / "link").symlink_to("model.bin")
    assert call(["vault", "save", "v", "w", "--workload", "llm", "--step", "8"]) == 0
    (folder / "model.sig").unlink()
    assert export() == 2
    assert "symbolic link" in capsys.readouterr().err
