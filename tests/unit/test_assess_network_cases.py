"""Known failures and traps of the network, workload and storage families, each as an estate that a person could have written."""

from __future__ import annotations

import time
from importlib import import_module

import pytest

from bridgehead.assess import interconnect
from bridgehead.assess.fabric_math import oversubscription
from bridgehead.assess.scope import Scope
from bridgehead.assess.version import older, plain
from bridgehead.model.estatefile import read_estate
from bridgehead.model.finding import Finding, FindingStatus
from bridgehead.model.policy import read_policy

SAMPLE = (
    "17/16 16/16 16/14 19/18 19/18 17/18 17/17 17/18 17/15 17/18 17/16 18/18 18/18 18/16 18/18 18/18 18/18 18/16 17/18 17/16 17/18 18/18"
    " 18/18 18/15 18/16 16/18 16/18 18/18 18/18 18/17 18/18"
)
"""Hosts and uplinks of the 31 leaves of a real GB200 fabric (ibnetdiscover); each has one aggregation node beside."""

POLICY = """
policy: p
source: a
target: b
windows: [{begins: "2026-03-07 20:00+00:00", ends: "2026-03-07 20:15+00:00"}]
objectives: {o: {rpo: 2 h, rto: 1 h}}
"""

NODE = "gpus: 8, gpus_expected: 8, gpu_model: H100, model: dgx"


def findings(family: str, text: str, policy: str = POLICY) -> list[Finding]:
    estate = read_estate("estate: e\n" + text, file="estate.yaml")
    a, b = sorted(estate.sites, key=lambda site: site.id)
    scope = Scope(estate, read_policy(policy, file="policy.yaml"), source=a, target=b)
    return [finding for check in import_module(f"bridgehead.assess.{family}").CHECKS for finding in check.run(scope)]


def one(found: list[Finding], code: str, subject: str = "", state: str = "") -> Finding:
    (finding,) = [f for f in found if f.code == code and subject in f.subject and state in f.state]
    return finding


def sites(b: str, a: str = "{}") -> str:
    return f"sites:\n  a: {a}\n  b: {b}\n"


def test_FB3_oversubscription_of_a_real_fabric_without_aggregation_nodes() -> None:
    leaves = [tuple(map(float, pair.split("/"))) for pair in SAMPLE.split()]
    assert len(leaves) == 31
    right = oversubscription([(down, up) for down, up in leaves])
    assert (right.least, right.median, right.greatest) == pytest.approx((0.889, 1.0, 1.2), abs=6e-4)
    wrong = oversubscription([(down + 1, up) for down, up in leaves])
    assert (wrong.least, wrong.median, wrong.greatest) == pytest.approx((0.944, 1.056, 1.267), abs=6e-4)


def test_D09_missing_gpu_is_named_by_its_siblings() -> None:
    full = f"{{{NODE}, gpu_addresses: [a0, a1, a2, a3, a4, a5, a6, a7]}}"
    less = "{gpus: 7, gpu_model: H100, model: dgx, gpu_addresses: [a0, a1, a2, a3, a4, a5, a7]}"
    found = findings("interconnect", sites(f"{{nodes: {{n1: {full}, n2: {full}, n3: {less}}}}}"))
    bad = one(found, "INT-GPUS", "node:n3")
    assert bad.status == "fail"
    assert "7 of 8" in bad.text
    assert "a6" in bad.text


def test_F05_inactive_links_reduce_that_gpu() -> None:
    node = "{gpus: 2, gpu_model: V100, gpu_links: [6, 4], gpu_links_expected: 6}"
    bad = one(findings("interconnect", sites(f"{{nodes: {{n1: {node}}}}}")), "INT-NVLINKS", "node:n1")
    assert bad.status == "fail"
    assert "GPU 1 has 4 of 6" in bad.text
    assert "67%" in bad.text


def test_D13_all_links_down_fails_by_the_model_alone() -> None:
    node = '{gpus: 2, gpu_model: "NVIDIA A100-SXM4-80GB", gpu_links: [0, 0]}'
    assert one(findings("interconnect", sites(f"{{nodes: {{n1: {node}}}}}")), "INT-NVLINKS", "node:n1").status == "fail"


def test_D01_a_ninth_adapter_for_management_is_no_rail() -> None:
    nics = ", ".join(f"mlx5_{i}: {{rate: 400 Gbps, fabric: rails, switch: leaf, gpu: {i}}}" for i in range(8))
    node = f"{{{NODE}, rack: r1, nics: {{{nics}, eth0: {{rate: 25 Gbps, fabric: mgmt}}}}}}"
    fabrics = "fabrics: {rails: {kind: roce, purpose: compute}, mgmt: {kind: ethernet, purpose: management}}"
    text = f"{{{fabrics}, racks: {{r1: {{}}}}, switches: {{leaf: {{fabric: rails, role: leaf}}}}, nodes: {{n1: {node}}}}}"
    assert one(findings("fabric", sites(text)), "FAB-RAILS").status == "pass"


def test_F02_nodes_without_topology_are_shown_and_never_pass() -> None:
    node = f"{{{NODE}, nics: {{m0: {{rate: 400 Gbps, fabric: rails}}}}}}"
    text = f"{{fabrics: {{rails: {{kind: roce, purpose: compute}}}}, nodes: {{n1: {node}, n2: {{{NODE}}}}}}}"
    topology = one(findings("fabric", sites(text)), "FAB-TOPOLOGY")
    assert topology.status == "unknown"
    assert "n1, n2" in topology.text


def test_F01_a_storage_switch_is_no_leaf_of_the_compute_fabric() -> None:
    nics = "{m0: {rate: 400 Gbps, fabric: rails, switch: leaf, gpu: 0}, s0: {rate: 100 Gbps, fabric: disks, switch: store}}"
    switches = "switches: {leaf: {fabric: rails, role: leaf}, store: {fabric: disks, role: leaf}}"
    fabrics = "fabrics: {rails: {kind: roce, purpose: compute}, disks: {kind: ethernet, purpose: storage}}"
    found = findings("fabric", sites(f"{{{fabrics}, {switches}, nodes: {{n1: {{{NODE}, nics: {nics}}}}}}}"))
    assert [f.status for f in found if f.code == "FAB-TOPOLOGY"] == ["pass", "pass"]
    assert {f.subject for f in found if f.code == "FAB-TOPOLOGY"} == {"b/fabric:rails", "b/fabric:disks"}


def _tree(up: int) -> str:
    nodes = ", ".join(
        f"n{i}: {{{NODE}, rack: r{i}, nics: {{m0: {{rate: 400 Gbps, fabric: rails, switch: leaf-{i}, gpu: 0}}}}}}" for i in range(3)
    )
    leaves = ", ".join(f"leaf-{i}: {{fabric: rails, role: leaf, uplinks: {{spine: {{count: {up}, rate: 100 Gbps}}}}}}" for i in range(3))
    racks = "racks: {r0: {}, r1: {}, r2: {}}"
    fabrics = "fabrics: {rails: {kind: roce, purpose: compute}}"
    return f"{{{racks}, {fabrics}, switches: {{{leaves}, spine: {{fabric: rails, role: spine}}}}, nodes: {{{nodes}}}}}"


def test_M3_fewer_uplinks_than_at_the_source_are_no_go() -> None:
    worse, same = findings("fabric", sites(_tree(2), _tree(4))), findings("fabric", sites(_tree(4), _tree(4)))
    for code, value, limit in (("FAB-OVERSUBSCRIPTION", 2.0, 1.0), ("FAB-BANDWIDTH", 25e9, 50e9)):
        finding = one(worse, code)
        assert (finding.status, finding.value, finding.limit) == ("fail", pytest.approx(value), pytest.approx(limit))
        assert one(same, code).status == "pass"


def test_M82_a_mismatch_of_qos_names_both_values() -> None:
    def roce(pfc: int) -> str:
        return f"{{fabrics: {{rails: {{kind: roce, purpose: compute, qos: {{pfc: [{pfc}], ecn: [3], dscp: {{'26': 3}}}}}}}}}}"

    found = findings("stretched", sites(roce(4), roce(3)))
    bad = one(found, "QOS-CLASSES", state="PFC")
    assert (bad.status, bad.value, bad.limit) == ("fail", "4", "3")
    assert one(found, "QOS-CLASSES", state="ECN").status == "pass"


@pytest.mark.parametrize(
    ("interval", "reroute", "status"), [("50 ms", "0 s", "fail"), ("10 ms", "15 ms", "pass"), ("10 ms", None, "unknown")]
)
def test_WN4_a_timer_alone_is_no_failover_time(interval: str, reroute: str | None, status: str) -> None:
    extra = f", reroute: {reroute}" if reroute else ""
    stretch = f"{{vnis: [7], bfd_interval: {interval}, bfd_multiplier: 3{extra}}}"
    fabric = f"{{fabrics: {{x: {{kind: ethernet, purpose: management, stretch: {stretch}}}}}}}"
    assert one(findings("stretched", sites(fabric, fabric)), "STR-FAILOVER", "b/").status == status


LINKS = """
links:
  n: {between: [a, b], rate: 400 Gbps, measured: 380 Gbps, used: 0 bps, carrier: x, path: [east]}
"""


@pytest.mark.parametrize(("size", "need"), [("checkpoint_per_gpu: 1 TB", 739.6e9), ("checkpoint: 1 TB", 1.444e9)])
def test_MV1_the_need_of_512_shards_is_not_665_gigabytes_a_second(size: str, need: float) -> None:
    work = f"workloads: {{lm: {{kind: training, site: a, gpus: 512, {size}}}}}"
    finding = one(findings("data_moves", sites("{}") + LINKS + work), "MOV-CHECKPOINTS")
    assert isinstance(finding.limit, float)
    assert finding.limit / 8 == pytest.approx(need, rel=1e-3)
    assert finding.status == ("fail" if "per_gpu" in size else "pass")


def test_M102_two_lines_of_one_duct_are_one() -> None:
    shared = LINKS + "  m: {between: [a, b], rate: 400 Gbps, carrier: y, path: [east, west]}\n"
    assert one(findings("wan", sites("{}") + shared), "WAN-DIVERSE").status == "fail"
    apart = LINKS + "  m: {between: [a, b], rate: 400 Gbps, carrier: y, path: [west]}\n"
    assert one(findings("wan", sites("{}") + apart), "WAN-DIVERSE").status == "pass"
    assert one(findings("wan", sites("{}") + LINKS), "WAN-DIVERSE").status == "fail"


@pytest.mark.parametrize(
    ("save", "status"), [("save: 20 s", "pass"), ("save: 40 s", "fail"), ("store: s", "fail"), ("seeded: true", "unknown")]
)
def test_J10_a_save_that_outlasts_the_shortest_grace(save: str, status: str) -> None:
    """Without a measured save, bytes by the store's rate (300 s here) may fail and never pass."""
    stores = "{stores: {s: {kind: filesystem, size: 1 PB, write: 2.8 GB/s}}}"
    graces = "graces: {killwait: {lasts: 30 s}, pod: {lasts: 60 s}}"
    work = f"workloads: {{lm: {{kind: training, site: a, gpus: 8, checkpoint: 840 GB, {graces}, {save}}}}}"
    assert one(findings("workloads", sites("{}", stores) + work), "WL-GRACE").status == status


def test_P23_one_nfs_server() -> None:
    text = sites("{stores: {s: {kind: filesystem, size: 1 PB, protocol: nfs4, servers: 1}}}")
    assert one(findings("storage", text), "STO-SINGLE").status == "fail"


def test_P1_a_job_never_mixes_generations() -> None:
    nodes = "{nodes: {n1: {gpus: 8, gpu_model: H100}, n2: {gpus: 8, gpu_model: A100}}}"
    work = "workloads: {lm: {kind: training, site: a, gpus: 16, gpu_model: H100}}"
    assert one(findings("generations", sites(nodes) + work), "GEN-JOB").status == "fail"


def test_restore_needs_a_driver_that_is_not_older() -> None:
    def at(driver: str) -> str:
        return f"{{nodes: {{n1: {{{NODE}, firmware: {{driver: '{driver}'}}}}}}}}"

    assert one(findings("firmware", sites(at("535.104.05"), at("535.129.03"))), "FW-RESTORE").status == "fail"
    assert one(findings("firmware", sites(at("550.54"), at("535.129.03"))), "FW-RESTORE").status == "pass"


def test_D12_how_a_tool_prints_is_no_drift() -> None:
    assert plain("28.39.1002 (MT_0000000838)") == plain("v28.39.1002")
    assert plain("1.2/1.3") == plain("1.3 / 1.2")
    assert plain("[N/A]") == ""
    assert older("535.9", "535.10") is True
    assert older("r7-beta", "r8") is None


def test_acceptance_below_expectation_and_wrong_results() -> None:
    text = (
        "{nodes: {n1: {gpus: 8, gpu_model: H100}}, acceptance: {x: {test: nccl-all-reduce, scale: node, measured: 450 GB/s,"
        " expected: 460 GB/s, wrong: 2}}}"
    )
    found = findings("acceptance", sites(text))
    assert [one(found, code).status for code in ("ACC-RESULT", "ACC-CORRECT", "ACC-SCALE")] == ["fail", "fail", "pass"]


def test_ten_thousand_gpus_are_judged_in_seconds() -> None:
    nics = [", ".join(f"m{r}: {{rate: 400 Gbps, fabric: rails, switch: leaf-{p}-{r}, gpu: {r}}}" for r in range(8)) for p in range(40)]
    nodes = "\n".join(f"      n{i}: {{{NODE}, rack: r{i // 4}, nics: {{{nics[i // 32]}}}}}" for i in range(1250))
    leaves = "\n".join(
        f"      leaf-{p}-{r}: {{fabric: rails, role: leaf, plane: {r}, ports: 64, port_rate: 400 Gbps,"
        f" uplinks: {{spine-{r}: {{count: 32, rate: 400 Gbps}}}}}}"
        for p in range(40)
        for r in range(8)
    )
    spines = "\n".join(f"      spine-{r}: {{fabric: rails, role: spine}}" for r in range(8))
    racks = ", ".join(f"r{i}: {{}}" for i in range(313))
    fabrics = "fabrics: {rails: {kind: infiniband, purpose: compute}}"
    body = f"\n    {fabrics}\n    racks: {{{racks}}}\n    switches:\n{leaves}\n{spines}\n    nodes:\n{nodes}"
    estate = read_estate(f"estate: e\nsites:\n  a: {body}\n  b: {body}\n", file="estate.yaml")
    scope = Scope(estate, read_policy(POLICY, file="p"), source=estate.sites[0], target=estate.sites[1])
    families = ["acceptance", "cables", "equivalence", "fabric", "fabric_settings", "firmware", "generations", "interconnect"]
    families += ["reserve", "storage", "workloads"]
    begun = time.process_time()
    found = [f for name in families for check in import_module(f"bridgehead.assess.{name}").CHECKS for f in check.run(scope)]
    assert time.process_time() - begun < 8, "10 s are allowed for all families together"
    assert one(found, "FAB-BANDWIDTH").status == "pass"
    assert one(found, "FAB-RAILS").status == "pass"


def test_D09_nodes_of_one_chassis_with_other_gpus_are_no_siblings() -> None:
    nodes = "{n1: {model: X, gpus: 4, gpu_model: H100}, n2: {model: X, gpus: 8, gpu_model: A100}, n3: {model: X, gpus: 7, gpu_model: A100}}"
    estate = read_estate(f"estate: e\nsites:\n  b:\n    nodes: {nodes}\n", file="e.yaml")
    policy = read_policy("policy: p\nsource: a\ntarget: b\n", file="p.yaml")
    found = list(interconnect.GPUS.run(Scope(estate, policy, source=None, target=estate.sites[0])))
    assert {one.subject for one in found if one.status is FindingStatus.FAIL} == {"b/node:n3"}
