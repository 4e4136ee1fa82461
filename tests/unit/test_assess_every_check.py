"""Every check passes, fails and does not know: each on the whole estate of the fixtures, with the values that are named here changed.

The table ``CASES`` is the list of these estates; a check that is not in it fails ``test_every_code_is_in_the_table``.
"""

from __future__ import annotations

import copy
import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from bridgehead.app.assess import assess
from bridgehead.app.checks import checks
from bridgehead.model.estatefile import read_estate_data
from bridgehead.model.finding import Finding, FindingStatus
from bridgehead.model.policy import read_policy

WHOLE = Path(__file__).parents[1] / "fixtures" / "assess"
PASS, FAIL, UNKNOWN = FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN
Changes = dict[str, Any]

ASKS = {"COOL-INPUTS", "PLACE-INPUTS", "PWR-INPUTS"}
"""They list what others wait for: never fail, and say nothing where nothing is waited for."""
NEVER_FAIL = ASKS | {"ACC-SCALE", "ACC-TESTS", "ACC-WORKLOAD", "EST-NODES", "EST-WORKLOADS", "FAB-TOPOLOGY", "FW-OTHER"}
"""A test that was not run, what nobody described, and drift of which nobody knows what it does are no failures."""
TELLS = {"COOL-REACH", "EST-SHADOW", "PWR-RING"}
"""They speak of what is wrong only."""
CODES = [check.code for check in checks()]
CARRIED: Changes = {"hardware": True, "b nodes": {}}

# Code: what makes it fail, and what makes it unknown ({} where it never is). Paths are relative to sites ("b racks r1 units") or to the
# estate ("links north mtu"); None takes a value away; "hardware" is that of the policy.
CASES: dict[str, tuple[Changes, Changes]] = {
    "ACC-CORRECT": ({"b acceptance full wrong": 1}, {"b acceptance full wrong": None}),
    "ACC-RESULT": ({"b acceptance full measured": "1 Tbps"}, {"b acceptance full expected": None}),
    "ACC-SCALE": ({}, {"b acceptance rack": None}),
    "ACC-TESTS": ({}, {"b acceptance stores scale": "rack"}),
    "ACC-WORKLOAD": ({}, {"b acceptance real": None}),
    "CAB-LATENCY": ({"b nodes n1 nics mlx5_0 length": "90 m"}, {"b nodes n1 nics mlx5_0 length": None}),
    "CAB-REACH": ({"b nodes n1 nics mlx5_0 length": "90 m"}, {"b nodes n1 nics mlx5_0 medium": None}),
    "COOL-AIR-RACK": ({"b nodes n3 power": "90 kW"}, {"b nodes n3 power": None, "b nodes n3 nameplate": None}),
    "COOL-CAPACITY": ({"b loops air unit_capacity": "1 kW"}, {"b loops air unit_capacity": None}),
    "COOL-DEW": ({"b loops wet supply": "11 °C"}, {"b loops wet dew_point": None}),
    "COOL-FLOW": ({"b loops wet flow": "0.05 L/s"}, {"b altitude": None}),
    "COOL-GATE": ({"b loops wet records flush passed": False}, {"b loops wet records flush": None}),
    "COOL-INPUTS": ({}, {"b loops air unit_capacity": None}),
    "COOL-LOOP-LOSS": ({"b racks r1 loops": ["air", "air-2", "wet"]}, {"b loops air-2 unit_capacity": None}),
    "COOL-REACH": ({"b racks r1 loops": ["air"]}, {"b racks r1 loops": None}),
    "COOL-SPARE": ({"b loops wet units_needed": 2}, {"b loops wet units_needed": None}),
    "EST-NODES": ({}, {"b nodes": {}}),
    "EST-SHADOW": ({"c": {}, "services chat sites": ["a", "b", "c"]}, {}),
    "EST-WORKLOADS": ({}, {"workloads": {}, "services": {}}),
    "FAB-ADDRESSES": (CARRIED | {"b fabrics ib free_addresses": 1}, CARRIED | {"b fabrics ib free_addresses": None}),
    "FAB-BANDWIDTH": ({"b nodes n3 nics mlx5_0 rate": "10 Gbps"}, {"b nodes n1 nics mlx5_0 switch": None}),
    "FAB-MANAGERS": ({"b fabrics ib subnet_managers": 1}, {"b fabrics ib subnet_managers": None}),
    "FAB-MTU": ({"b fabrics st mtu": 1500}, {"b fabrics st mtu": None}),
    "FAB-OVERSUBSCRIPTION": ({"b switches ib-0 uplinks ib-s rate": "10 Gbps", "b switches ib-0 uplinks ib-t rate": "10 Gbps"},
                             {"b nodes n1 nics mlx5_0 switch": None}),
    "FAB-PARTITIONS": ({"b fabrics ib partitions": ["0x8001"]}, {"b fabrics ib partitions": None}),
    "FAB-PORTS": (CARRIED | {"b switches ib-0 ports": 5, "b switches ib-1 ports": 5}, CARRIED | {"b switches ib-0 ports": None}),
    "FAB-PURPOSE": ({"b fabrics mg purpose": "storage"}, {"b fabrics": {}, "b switches": {}, "b nodes": {}}),
    "FAB-RAILS": ({"b nodes n1 nics mlx5_0 switch": "ib-1", "b nodes n1 nics mlx5_1 switch": "ib-0"}, {"b nodes n1 nics mlx5_0 gpu": None}),
    "FAB-SWITCH-LOSS": ({"b switches ib-0 uplinks ib-t": None, "b switches ib-1 uplinks ib-t": None},
                        {"b nodes n1 nics mlx5_0 switch": None}),
    "FAB-TOPOLOGY": ({}, {"b nodes n1 nics mlx5_0 switch": None}),
    "FW-COLLECTIVES": ({"b nodes n1 firmware nccl": "2.21"}, {"b nodes n1 firmware nccl": None}),
    "FW-GOLDEN": ({"b nodes n1 firmware driver": "535.1"}, {"b nodes n1 firmware driver": None}),
    "FW-OTHER": ({}, {"b nodes n1 firmware bios": None}),
    "FW-RESTORE": ({"b nodes n1 firmware driver": "535.1"}, {"b nodes n1 firmware driver": None}),
    "GEN-BALANCE": ({"b nodes n1 memory": "2 TiB"}, {"b nodes n1 memory": None}),
    "GEN-JOB": ({"workloads lm gpus": 8}, {"workloads lm gpu_model": None}),
    "INT-ADAPTERS": ({"b nodes n1 nics mlx5_0": None}, {"b nodes n1 model": None}),
    "INT-GPUS": ({"b nodes n1 gpus_expected": 4}, {"b nodes n1 gpus_expected": None}),
    "INT-LINKS-UP": ({"b nodes n1 nics mlx5_0 active": False}, {"b nodes n1 nics mlx5_0 active": None}),
    "INT-NVLINKS": ({"b nodes n1 gpu_links": [18, 17]}, {"b nodes n1 gpu_links": None}),
    "MOV-CHECKPOINTS": ({"workloads lm checkpoint": "900 PB"}, {"workloads lm checkpoint": None}),
    "MOV-CONVERGES": ({"a stores fs change": "900 Gbps"}, {"a stores fs change": None}),
    "MOV-DATA": ({"a stores fs used": "900 TB", "links north measured": "1 Gbps", "links south measured": "1 Gbps",
                  "couriers van fill": "100 Mbps"}, {"a stores fs used": None}),
    "PLACE-GPUS": ({"workloads lm gpus": 6}, {"workloads lm gpu_model": None, "workloads lm gpus": 6, "a nodes n1 gpu_model": "A100"}),
    "PLACE-HARDWARE": (CARRIED | {"b racks r1 units": 5, "b racks r2 units": 5}, CARRIED | {"a nodes n1 weight": None}),
    "PLACE-INPUTS": ({}, CARRIED | {"a nodes n1 weight": None}),
    "PWR-BRIDGE": ({"b sources ups-a battery": "5 s"}, {"b sources ups-a battery": None}),
    "PWR-CIRCUIT": ({"b circuits a1 current": "16 A"}, {"b circuits a1 continuous": None}),
    "PWR-INPUTS": ({}, {"b circuits a1 continuous": None}),
    "PWR-LINES": ({"b sources panel-a rating": "20 kVA"}, {"b circuits a1 lines": None, "b sources panel-a rating": "22 kVA"}),
    "PWR-LOAD": ({"b nodes n1 measured": "5 kW"}, {"b nodes n1 power": None}),
    "PWR-PLATE": ({"b nodes n1 nameplate": "3 kW"}, {}),
    "PWR-REDUNDANT": ({"b nodes n1 supplies_needed": 2}, {"b nodes n1 supplies_needed": None}),
    "PWR-RING": ({"b sources ats-a fed_by": ["ups-a"]}, {}),
    "PWR-SITE": ({"b power": "10 kW"}, {"b power": None}),
    "PWR-SOURCE": ({"b sources ups-a rating": "5 kVA"}, {"b sources ups-a rating": None}),
    "PWR-SOURCE-W": ({"b sources ups-a active_limit": "5 kW"}, {"b sources ups-a active_limit": None}),
    "PWR-VOLTAGE": ({"b circuits a3 voltage": "230 V"}, {}),
    "QOS-CLASSES": ({"b fabrics st qos pfc": [4]}, {"b fabrics st qos pfc": None}),
    "RSV-CUT-OVER": ({"workloads lm restore": "30 h"}, {"workloads lm restore": None}),
    "RSV-FAULTS": ({"b gpu_hours_per_interruption": 10}, {"b gpu_hours_per_interruption": None}),
    "RSV-GROWTH": ({"a usage 2026-Q3 used_gpu_hours": 7500}, {"a usage 2026-Q2": None}),
    "RSV-INTERVAL": ({"workloads lm checkpoint_every": "5 min"},
                     {"workloads lm save": None, "b stores fs write": None, "a stores fs write": None}),
    "RSV-SPARES": ({"b spare_gpus": 1}, {"b spare_gpus": None}),
    "SPACE-FLOOR": ({"b floor_kg_per_m2": 100}, {"b racks r1 footprint_m2": None}),
    "SPACE-POSITION": ({"b nodes n2 position": 3}, {"b nodes n2 position": None}),
    "SPACE-UNITS": ({"b racks r1 units": 11}, {"b racks r1 units": None}),
    "SPACE-WEIGHT": ({"b racks r1 max_weight": "200 kg"}, {"b nodes n1 weight": None}),
    "STO-CHECKPOINTS": ({"b stores fs write": "1 Mbps"}, {"b stores fs write": None}),
    "STO-RATES": ({"b stores fs write": "1 Gbps"}, {"b stores fs read": None}),
    "STO-ROOM": ({"b stores fs used": "950 TB"}, {"b stores fs used": None}),
    "STO-SINGLE": ({"b stores fs protocol": "nfs", "b stores fs servers": 1}, {"b stores fs protocol": None}),
    "STR-FAILOVER": ({"b fabrics st stretch reroute": "40 ms"}, {"b fabrics st stretch reroute": None}),
    "STR-MTU": ({"links north mtu": 1500}, {"links north mtu": None}),
    "STR-OVERLAY": ({"b fabrics st stretch evpn": False}, {"b fabrics st stretch evpn": None}),
    "TOP-FABRIC": ({"b switches ib-0 ports": 64}, {"b switches ib-0 ports": None}),
    "TOP-NODES": ({"b nodes n1 gpu_links": [18, 17]}, {"b nodes n1 gpu_links": None}),
    "TOP-RAILS": ({"b nodes n1 nics mlx5_0 rate": "100 Gbps"}, {"b nodes n1 nics mlx5_0": None, "b nodes n1 nics mlx5_1": None}),
    "WAN-DIVERSE": ({"links south carrier": "Nordlys"}, {"links south path": None}),
    "WAN-FAILOVER": ({"links north failover": "3 s"}, {"links north failover": None}),
    "WAN-RATE": ({"links north measured": "10 Gbps"}, {"links north measured": None, "links north window": None}),
    "WAN-SURVIVE": ({"links north used": "95 Gbps"}, {"links north used": None}),
    "WL-GRACE": ({"workloads lm save": "10 min"}, {"workloads lm graces": None}),
    "WL-MINIMUM": ({"b nodes n1 gpu_model": "A100", "b nodes n2 gpu_model": "A100", "b nodes n3 gpu_model": "A100"},
                   {"workloads lm min_gpus": None}),
    "WL-NEEDS": ({"services chat sites": ["a"]}, {}),
    "WL-RESTORE": ({"workloads lm restore": "2 h"}, {"workloads lm restore": None}),
    "WL-RPO": ({"workloads lm checkpoint_every": "20 h"}, {"workloads lm checkpoint_every": None}),
    "WL-SEEDS": ({"workloads lm seeded": False}, {"workloads lm seeded": None}),
}  # fmt: skip


@cache
def whole() -> str:
    # JSON between, so that no two places share what the file wrote once.
    return msgspec.json.encode(yaml.safe_load((WHOLE / "whole.yaml").read_text(encoding="utf-8"))).decode()


def findings(changes: Changes) -> list[Finding]:
    data, hardware = msgspec.json.decode(whole()), False
    for path, value in changes.items():
        if path == "hardware":
            hardware = bool(value)
            continue
        *ahead, last = path.split()
        place = data["sites"] if ahead[:1] in (["a"], ["b"]) or path == "c" or path[:2] in ("a ", "b ") else data
        for step in ahead:
            place = place[step]
        if value is None:
            del place[last]
        else:
            place[last] = copy.deepcopy(value)
    policy = read_policy((WHOLE / "policy.yaml").read_text(encoding="utf-8"), file="policy.yaml")
    found = assess(read_estate_data(data, file="whole.yaml"), policy=msgspec.structs.replace(policy, hardware=hardware), now_s=0.0)
    return list(found.findings)


def states(code: str, changes: Changes) -> set[FindingStatus]:
    return {one.status for one in findings(changes) if one.code == code}


def test_every_code_is_in_the_table() -> None:
    assert sorted(CASES) == sorted(CODES)


@pytest.mark.parametrize("code", CODES)
def test_passes(code: str) -> None:
    carried = any("hardware" in changes for changes in CASES[code])
    found = states(code, CARRIED if carried else {})
    assert found == (set() if code in ASKS | TELLS else {PASS})


@pytest.mark.parametrize("code", [code for code in CODES if CASES[code][0]])
def test_fails(code: str) -> None:
    failed = [one for one in findings(CASES[code][0]) if one.code == code and one.status is FAIL]
    assert failed
    assert all(one.remedy and one.text for one in failed)


@pytest.mark.parametrize("code", [code for code in CODES if CASES[code][1]])
def test_does_not_know(code: str) -> None:
    unknown = [one for one in findings(CASES[code][1]) if one.code == code and one.status is UNKNOWN]
    assert unknown
    assert all(one.measurement for one in unknown)


def test_only_those_that_are_named_never_fail() -> None:
    assert {code for code, (fail, _) in CASES.items() if not fail} == NEVER_FAIL


@pytest.mark.parametrize("code", CODES)
def test_every_formula_cites_its_source(code: str) -> None:
    (check,) = (check for check in checks() if check.code == code)
    assert re.search(r"rules sections? \d|\b(M\d+\.?\d?|P\d+|R\d|D\d\d|F\d\d|J\d\d)\b", check.formula), check.formula
