"""What the machine or an odd address refuses comes out as an error of the ports, never as a bare one."""

from __future__ import annotations

import pytest

from bridgehead.host.desired import DesiredFile
from bridgehead.host.questions import ask
from bridgehead.kernel.errors import Permanent, Transient


@pytest.mark.parametrize(
    "url",
    [
        "http://h:99999/",
        "http://h:x/",
        "http://[::1/",
        "http://.a/",
        "http://h/\u00fc",
        "http://h /",
        "http://h/a b",
        "https://h/",
        "http://",
        "",
    ],
)
def test_an_odd_address_is_permanent(url):
    with pytest.raises(Permanent, match="not an http:// address") as caught:
        ask(url, accept="*/*", tried="ask", timeout_s=1.0)
    assert caught.value.remedy


def test_a_port_of_nobody_is_transient():
    with pytest.raises(Transient):
        ask("http://127.0.0.1:0/", accept="*/*", tried="ask", timeout_s=1.0)


def test_a_lock_that_cannot_be_made_is_permanent(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Permanent, match="lock the desired traffic"), DesiredFile(tmp_path / "file" / "state.json").locked():
        pytest.fail("there is no lock")
    (tmp_path / "state.json.lock").mkdir()
    with pytest.raises(Permanent, match="lock the desired traffic"), DesiredFile(tmp_path / "state.json").locked():
        pytest.fail("there is no lock")
