"""Secrets of a real OpenBao server: KV version 2, AppRole with short-lived tokens, transit; and what goes wrong there."""

from __future__ import annotations

import time

import pytest

from bridgehead.drivers.openbao import OpenBaoSecrets, options_of
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, NotFound, Permanent, Transient
from bridgehead.ports.secrets import Secret, secret_ref
from bridgehead.testing.openbao_server import ROOT, openbao
from bridgehead.testing.servers import free_port

pytestmark = pytest.mark.server("bao")
VALUE = "s3cret-value"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with openbao(tmp_path_factory.mktemp("openbao")) as server:
        server.put("registry", password=VALUE, user="robot")
        yield server


def fetched(server, ref: str = "kv/bridgehead/registry#password", **settings: object) -> Secret:
    return OpenBaoSecrets(options_of(server.role(**settings))).get(secret_ref(ref))


def test_a_secret_is_fetched_by_a_role_and_shows_nothing_of_itself(shared) -> None:
    secret = fetched(shared, "secret://kv/bridgehead/registry#password")
    assert secret.value == VALUE
    assert VALUE not in repr(secret)
    assert VALUE not in f"{[secret]}"


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("kv/bridgehead/nothing#password", "there is nothing"),
        ("kv/bridgehead/registry#passwort", "Its fields: password, user."),
    ],
)
def test_a_wrong_path_or_field_is_named(shared, ref, words) -> None:
    with pytest.raises(NotFound) as error:
        fetched(shared, ref)
    assert words in str(error.value)
    assert ref in str(error.value)
    assert VALUE not in str(error.value)


@pytest.mark.parametrize("ref", ["kv/elsewhere/registry#password", "no-such-mount/registry#password"])
def test_what_the_policy_does_not_allow_is_refused(shared, ref) -> None:
    with pytest.raises(Permanent, match="policy of its role does not allow this path"):
        fetched(shared, ref)


@pytest.mark.parametrize("ref", ["kv", "kv/x", "kv/#y", "/x#y", "kv/x?list=true#y"])
def test_what_is_no_reference_is_said(ref) -> None:
    with pytest.raises(BridgeheadError, match="secret://kv/site-a/registry#password") as error:
        secret_ref(ref)
    assert error.value.code is ErrorCode.BAD_INPUT


def test_a_wrong_secret_id_does_not_log_in_and_is_not_shown(shared) -> None:
    options = options_of(shared.role() | {"BAO_SECRET_ID": "wrong-secret-id"})
    with pytest.raises(Permanent, match="could not log in") as error:
        OpenBaoSecrets(options).get(secret_ref("kv/bridgehead/registry#password"))
    assert "wrong-secret-id" not in str(error.value)
    assert "wrong-secret-id" not in repr(options)


def test_a_short_lived_token_is_renewed_and_replaced_when_it_can_be_no_longer(shared) -> None:
    secrets = OpenBaoSecrets(options_of(shared.role(token_ttl="1s", token_max_ttl="2s")))
    ends_s = time.monotonic() + 4.5
    tokens = set()
    while time.monotonic() < ends_s:
        assert secrets.get(secret_ref("kv/bridgehead/registry#user")).value == "robot"
        tokens.add(secrets._token)
        time.sleep(0.1)
    assert 2 <= len(tokens) <= 6  # of 2 s each, and not one for each question


def test_a_token_that_was_revoked_is_replaced_once(shared) -> None:
    secrets = OpenBaoSecrets(options_of(shared.role()))
    secrets.get(secret_ref("kv/bridgehead/registry#user"))
    shared.ask("POST", "auth/token/revoke", {"token": secrets._token})
    assert secrets.get(secret_ref("kv/bridgehead/registry#user")).value == "robot"


def test_an_expired_token_of_somebody_who_cannot_log_in_is_said(shared) -> None:
    made = shared.ask("POST", "auth/token/create", {"policies": ["bridgehead"], "ttl": "1s", "renewable": False})
    secrets = OpenBaoSecrets(options_of({"BAO_ADDR": shared.address, "BAO_TOKEN": made["auth"]["client_token"]}))
    assert secrets.get(secret_ref("kv/bridgehead/registry#user")).value == "robot"
    time.sleep(1.2)
    with pytest.raises(Permanent, match="expired") as error:
        secrets.get(secret_ref("kv/bridgehead/registry#user"))
    assert made["auth"]["client_token"] not in str(error.value)


def test_transit_unwraps_what_it_wrapped_and_nothing_else(shared) -> None:
    secrets = OpenBaoSecrets(options_of(shared.role()))
    wrapped = secrets.wrap("transit/vault", bytes(range(32)))
    assert wrapped.startswith("vault:v1:")
    assert secrets.unwrap("transit/vault", wrapped) == bytes(range(32))
    with pytest.raises(Permanent):
        secrets.unwrap("transit/vault", wrapped[:-8] + "AAAAAAA=")
    with pytest.raises(Permanent):
        secrets.unwrap("transit/other", wrapped)


def test_a_sealed_server_is_said_and_waited_for(tmp_path) -> None:
    with openbao(tmp_path) as server:
        server.put("registry", password=VALUE)
        secrets = OpenBaoSecrets(options_of(server.role()))
        secrets.get(secret_ref("kv/bridgehead/registry#password"))
        server.seal()
        with pytest.raises(Transient, match="the server is sealed"):
            secrets.get(secret_ref("kv/bridgehead/registry#password"))
        server.unseal()
        assert secrets.get(secret_ref("kv/bridgehead/registry#password")).value == VALUE


def test_a_server_that_is_not_there_is_transient() -> None:
    options = options_of({"BAO_ADDR": f"http://127.0.0.1:{free_port()}", "BAO_TOKEN": ROOT})
    with pytest.raises(Transient) as error:
        OpenBaoSecrets(options).get(secret_ref("kv/bridgehead/registry#password"))
    assert ROOT not in str(error.value)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "BAO_ADDR"),
        ({"BAO_ADDR": "http://x"}, "neither a role"),
        ({"BAO_ADDR": "http://x", "BAO_ROLE_ID": "r"}, "neither a role"),
        ({"BAO_ADDR": "http://x", "BAO_ROLE_ID": "r", "BAO_SECRET_ID_FILE": "/no/such/file"}, "/no/such/file"),
    ],
)
def test_what_is_missing_in_the_environment_is_named(environ, words) -> None:
    with pytest.raises(BridgeheadError, match=words) as error:
        options_of(environ)
    assert error.value.code is ErrorCode.BAD_USAGE
