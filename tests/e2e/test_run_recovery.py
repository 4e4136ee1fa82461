"""`bridgehead run` of a recovery says what `bridgehead recover` says (finding of a first user; J06, R14)."""

from __future__ import annotations

import signal

from bridgehead.runbook import state as st


def test_J06_a_resumed_failover_says_at_once_that_it_serves_unprotected_and_again_when_it_is_left(line, steps) -> None:
    confirm = {"id": "confirm", "action": "recovery.confirm-loss", "with": {"site": "ams", "watched": []}, "deadline": "1 min"}
    clock = {"milestone": "serving", "site": "fra", "since": "2026-03-01 20:00:00.0485373Z"}
    serving = {"id": "serving", "action": "recovery.milestone", "with": clock, "deadline": "1 min", "needs": ["confirm"]}
    book = line.write("fo.yaml", {"runbook": "fo", "steps": [confirm, serving, steps.approval(needs=("serving",))]})
    assert line.run("run", "start", book, "--estate", line.estate, "--name", "fo", "--detach").returncode == 0
    driving = line.drive("run", "resume", "fo")
    line.until_step("fo", "agree", st.Asking)
    driving.send(signal.SIGINT)
    left = driving.end()
    assert left.returncode == 7, left.stderr
    told = "It serves, but it is NOT PROTECTED"
    assert told in left.stderr
    assert left.stderr.index(told) < left.stderr.index("agree: asking")
    assert "serving: reached at " in left.stdout
    assert told in left.stdout
    assert "`bridgehead run resume fo`, or `bridgehead recover protect ams`" in left.stdout
    assert line.run("run", "reject", "fo", "agree", "--as", "ann").returncode == 0
    ended = line.run("run", "resume", "fo")
    assert ended.returncode == 1
    assert "Nothing was changed. Ask again: `bridgehead recover failover ams`" in ended.stdout
