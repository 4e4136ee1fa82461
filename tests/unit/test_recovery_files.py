"""Recovery files: what they may say, and how faults are told (R2, R11, R14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.app.recovery_files import load_recovery
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.shape import fields_of
from bridgehead.model.estatefile import read_estate
from bridgehead.model.recovery import Pattern, Protected, Recovery, Role, SiteJob
from bridgehead.model.recoveryfile import read_recovery, recovery_schema, write_recovery

TEXT = """
recovery: two-halls
sites: [site-a, site-b]
witness: witness
approvers: {people: [ada, ben], quorum: 2, answer: 30 min}
escalation: [{after: 5 min, people: [ada]}]
ramp: {step: 25 %, every: 5 s}
workloads:
  ldap:
    kind: service
    role: identity
    home: site-a
    refuge: site-b
    jobs:
      site-a: {command: [ldapd]}
      site-b: {command: [ldapd]}
  lm:
    kind: training
    pattern: active-passive
    home: site-a
    refuge: site-b
    needs: [ldap]
    gpus: 64
    jobs:
      site-a: {name: lm-a, command: [train], grace: 10 s}
      site-b: {name: lm-b, command: [train]}
"""
ESTATE = """
estate: halls
sites:
  site-a:
    connections:
      scheduler: {driver: process, directory: a/jobs}
      vault: {driver: localfs, directory: a/vault}
  site-b:
    connections:
      scheduler: {driver: process, directory: b/jobs}
      training: {driver: files, directory: b/control}
      vault: {driver: localfs, directory: b/vault}
"""


def faults(text: str) -> str:
    with pytest.raises(BridgeheadError) as caught:
        read_recovery(text, file="r.yaml")
    return str(caught.value)


def test_what_is_written_is_read_back() -> None:
    recovery = read_recovery(TEXT, file="r.yaml")
    assert recovery.voters == ("site-a", "site-b", "witness")
    assert recovery.workload("lm").job("site-b").name == "lm-b"
    assert recovery.workload("ldap").job("site-a").name == "ldap"
    assert (recovery.workload("lm").pattern, recovery.workload("ldap").role) == (Pattern.ACTIVE_PASSIVE, Role.IDENTITY)
    assert read_recovery(write_recovery(recovery), file="again") == recovery
    assert recovery_schema()["title"] == "Bridgehead recovery"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "needs: [ldap]",
            "needs: [ldpa]",
            "r.yaml:22:13: workloads.lm.needs[0]: there is no protected workload 'ldpa'; did you mean 'ldap'?",
        ),
        ("quorum: 2", "quorum: 3", "r.yaml:5:41: approvers.quorum: 3 must approve, but only 2 may"),
        ("step: 25 %", "step: 25", "ramp.step: found '25': the unit is missing"),
        ("witness: witness", "witness: site-b", "witness: 'site-b' is one of the sites"),
        ("refuge: site-b\n    needs", "refuge: site-a\n    needs", "workloads.lm.refuge: home and refuge are both 'site-a'"),
        ("      site-b: {name: lm-b, command: [train]}\n", "", "workloads.lm.jobs: there is no job at 'site-b'"),
        ("kind: training", "kind: inference", "workloads.lm: inference without a service"),
        ("role: identity", "needs: [lm]", "workloads.ldap.needs: it waits for itself: 'ldap' needs 'lm' needs 'ldap'"),
        ("witness: witness", "archives: [site-a]", "archives[0]: 'site-a' is one of the sites"),
    ],
)
def test_faults_name_file_line_and_field(old: str, new: str, told: str) -> None:
    assert old in TEXT
    assert told in faults(TEXT.replace(old, new, 1))


def test_what_the_estate_does_not_connect_is_told_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_text(TEXT)
    with pytest.raises(BridgeheadError) as caught:
        load_recovery(file, estate=read_estate(ESTATE, file="e.yaml"))
    text = str(caught.value)
    assert f"{file}:4:10: witness: the estate has no site 'witness'" in text
    assert "workloads.lm: the estate does not connect 'training' of 'site-a'" in text


def test_the_example_of_the_reference_is_a_recovery_file_and_every_field_is_in_it() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "recovery-files.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    assert read_recovery(example, file="page").workload("lm").gpus == 64
    for field in (*fields_of(Recovery), *fields_of(Protected), *fields_of(SiteJob)):
        assert f"| `{field.key}` |" in page, field.key
