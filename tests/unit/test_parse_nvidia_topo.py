"""nvidia-smi topo -m and -p2p: relations by name, whatever the layout; cells that ran together; tables that are cut (M2, D01 to D04)."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from bridgehead.app.parsers import parsers
from bridgehead.discovery.cpu_list import cpus_in, parted, ranges_of
from bridgehead.discovery.parsers import nvidia_smi_topo, nvidia_smi_topo_p2p
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.discovery.recognise import recognised_by
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
NODE = "node:h1"


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def parse(text: str, parser: Parser = nvidia_smi_topo.PARSER) -> Parsed:
    assert recognised_by(text.encode(), parsers()) == (parser,)
    return parser.parse(Capture("f", text.encode(), "h1"))


def topo(name: str) -> Parsed:
    return parse(text_of(f"nvidia-smi-topo/{name}.txt"))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == f"{NODE}/{subject}" and one.attribute == attribute]
    return found


def link(parsed: Parsed, one: str, other: str) -> object:
    return fact(parsed, one, f"link-to:{other}").value


def gpu_links(parsed: Parsed, gpus: int) -> list[object]:
    return [link(parsed, f"gpu:{one}", f"gpu:{other}") for one, other in combinations(range(gpus), 2)]


def column(parsed: Parsed, attribute: str, gpus: int) -> list[object]:
    return [fact(parsed, f"gpu:{gpu}", attribute).value for gpu in range(gpus)]


def said(parsed: Parsed) -> set[tuple[str, str, object, Status]]:
    return {(one.subject, one.attribute, one.value, one.status) for one in parsed.facts}


def test_tabs_ten_nics_and_the_two_of_each_pair_of_gpus() -> None:
    parsed = topo("a100_8gpu_10nic_tabs")
    assert gpu_links(parsed, 8) == ["NV12"] * 28
    near = {0: (2, 3), 1: (2, 3), 2: (0, 1), 3: (0, 1), 4: (8, 9), 5: (8, 9), 6: (4, 5), 7: (4, 5)}
    for gpu, nics in near.items():
        found = {nic for nic in range(10) if link(parsed, f"gpu:{gpu}", f"nic:mlx5_{nic}") == "PXB"}
        assert found == set(nics)
        assert [link(parsed, f"gpu:{gpu}", f"nic:mlx5_{nic}") for nic in (6, 7)] == ["SYS", "SYS"]
    assert link(parsed, "nic:mlx5_6", "nic:mlx5_7") == "PIX"
    assert fact(parsed, "gpu:4", "cpu-affinity").value == "64-127,192-254"
    assert (fact(parsed, "gpu:7", "numa-affinity").value, fact(parsed, "gpu:7", "gpu-numa-id").status) == ("1", Status.UNKNOWN)


def test_prompt_first_and_narrow_columns() -> None:
    parsed = topo("prompt_narrow_no_legend")
    assert gpu_links(parsed, 4) == ["NV12"] * 6
    assert column(parsed, "numa-affinity", 4) == ["0", "0", "1", "1"]
    assert column(parsed, "cpu-affinity", 4) == ["0-31", "0-31", "32-63", "32-63"]


def test_D04_relation_that_ran_into_the_cpus_comes_from_the_mirrored_cell() -> None:
    parsed = topo("vm_last_cell_ran_into_cpus")
    assert gpu_links(parsed, 4) == ["NV12"] * 6
    for gpu in range(4):
        for nic in range(4):
            assert link(parsed, f"gpu:{gpu}", f"nic:mlx5_ib{nic}") == "PHB"
    repaired = fact(parsed, "gpu:2", "link-to:nic:mlx5_ib3")
    assert repaired.note == "from row NIC3, not from row GPU2: the tool printed 'PH0-63' there"
    assert column(parsed, "cpu-affinity", 4) == ["0-63"] * 4
    assert column(parsed, "numa-affinity", 4) == ["0-1"] * 4


def test_D04_numa_node_that_ran_into_the_cpus_is_parted_and_never_a_range() -> None:
    parsed = topo("numa_ran_into_cpus")
    assert gpu_links(parsed, 4) == ["NV8"] * 6
    assert column(parsed, "cpu-affinity", 4) == ["0-15,32-47", "0-15,32-47", "16-31,48-63", "16-31,48-63"]
    assert column(parsed, "numa-affinity", 4) == ["0", "0", "1", "1"]
    assert "ran together" in fact(parsed, "gpu:0", "cpu-affinity").note
    ways = [[link(parsed, f"gpu:{gpu}", f"nic:NIC{nic}") for gpu in range(4)] for nic in range(2)]
    assert ways == [["PXB", "NODE", "SYS", "SYS"], ["SYS", "SYS", "PXB", "NODE"]]


def test_D04_without_a_row_to_compare_with_it_is_unknown() -> None:
    lines = text_of("nvidia-smi-topo/numa_ran_into_cpus.txt").replace("16-31,48-63     1", "16-31,48-631     ")
    parsed = parse(lines)
    for gpu in range(4):
        cpus = fact(parsed, f"gpu:{gpu}", "cpu-affinity")
        assert (cpus.status, "no other row tells" in cpus.note) == (Status.UNKNOWN, True)


def test_empty_cpu_cell_of_a_container_shifts_nothing() -> None:
    parsed = topo("cgroup_blank_cpus")
    assert gpu_links(parsed, 3) == ["NV18"] * 3
    assert column(parsed, "cpu-affinity", 3) == ["8-11,40-43", None, None]
    assert column(parsed, "numa-affinity", 3) == ["0", "1", "1"]


def test_D02_sixteen_gpus_and_nics_by_name_of_a_table_that_is_cut() -> None:
    parsed = topo("wide_16_gpus_cut")
    assert [one.value for one in parsed.facts if one.attribute == "gpu-count"] == [16]
    rows = [one.value for one in parsed.facts if one.subject == f"{NODE}/gpu:0" and one.attribute.startswith("link-to:gpu")]
    assert rows == ["NV6"] * 15
    assert link(parsed, "gpu:1", "nic:mlx5_0") == "PIX"
    assert any("incomplete: rows GPU4, GPU5" in one.reason for one in parsed.skipped)
    assert any(one.reason.startswith("row GPU3: only") for one in parsed.skipped)


def test_D03_numa_lists_stay_lists_and_gpus_are_numa_nodes() -> None:
    parsed = topo("grace_numa_lists")
    assert column(parsed, "numa-affinity", 2) == ["0,2-5,7-9", "1,10-13"]
    assert column(parsed, "gpu-numa-id", 2) == [6, 14]
    assert column(parsed, "cpu-affinity", 2) == ["0-35", "36-71"]
    assert {link(parsed, f"gpu:{gpu}", f"nic:mlx5_{nic}") for gpu in range(2) for nic in range(4)} == {"SYS"}
    assert link(parsed, "nic:mlx5_2", "nic:mlx5_3") == "PIX"


def test_D01_nine_nics_of_which_one_is_far_from_all() -> None:
    parsed = topo("nine_nics_one_apart_cut")
    assert gpu_links(parsed, 8) == ["NV18"] * 28
    assert {link(parsed, f"gpu:{gpu}", "nic:NIC0") for gpu in range(8)} == {"SYS"}
    pairs = {(gpu, nic) for gpu in range(8) for nic in range(9) if link(parsed, f"gpu:{gpu}", f"nic:NIC{nic}") == "PIX"}
    assert pairs == {(gpu, 8 - gpu) for gpu in range(8)}
    assert [one.reason for one in parsed.skipped] == ["the output is incomplete: rows NIC5, NIC6, NIC7, NIC8 are missing"]


def test_eight_gpus_without_nics_and_without_legend() -> None:
    parsed = topo("h200_no_nics_no_legend")
    assert gpu_links(parsed, 8) == ["NV18"] * 28
    assert column(parsed, "cpu-affinity", 8) == ["0-47,96-143"] * 4 + ["48-95,144-191"] * 4
    assert column(parsed, "numa-affinity", 8) == ["0"] * 4 + ["1"] * 4
    assert not [one for one in parsed.facts if "nic" in one.attribute]


def test_two_islands_of_nvlink_under_another_legend() -> None:
    assert gpu_links(topo("nvlink_partial_two_islands"), 4) == ["NV1", "SYS", "SYS", "SYS", "SYS", "NV1"]


def test_no_nvlink_at_all() -> None:
    assert gpu_links(topo("pcie_4gpu_phb"), 4) == ["PHB"] * 6


def test_two_gpus_and_two_nics_in_one_numa_node() -> None:
    parsed = topo("two_gpus_node_nic_rows_padded")
    assert link(parsed, "gpu:0", "gpu:1") == "NODE"
    assert link(parsed, "nic:NIC0", "nic:NIC1") == "PIX"
    assert {link(parsed, f"gpu:{gpu}", f"nic:NIC{nic}") for gpu in range(2) for nic in range(2)} == {"NODE"}
    assert column(parsed, "cpu-affinity", 2) == ["32-63,96-127"] * 2


def test_pairs_by_nvlink_and_one_nic_near_one_of_them() -> None:
    parsed = topo("nvlink_pairs_one_nic")
    assert gpu_links(parsed, 4) == ["NV4", "SYS", "SYS", "SYS", "SYS", "NV4"]
    assert [link(parsed, f"gpu:{gpu}", "nic:mlx5_bond_0") for gpu in range(4)] == ["PIX", "PXB", "SYS", "SYS"]


def test_names_of_nics_without_a_heading() -> None:
    parsed = topo("nic_names_without_heading")
    assert gpu_links(parsed, 4) == ["NV2"] * 6
    assert [link(parsed, f"gpu:{gpu}", "nic:mlx5_2") for gpu in range(4)] == ["PIX", "PIX", "SYS", "SYS"]
    assert [link(parsed, f"gpu:{gpu}", "nic:mlx5_3") for gpu in range(4)] == ["SYS", "SYS", "PIX", "PIX"]


def test_old_heading_with_mlx5_and_unequal_pairs() -> None:
    parsed = topo("mixed_nv1_nv2_old_header")
    assert gpu_links(parsed, 4) == ["NV2", "NV1", "NV1", "NV1", "NV2", "NV2"]
    assert {link(parsed, f"gpu:{gpu}", "nic:mlx5_1") for gpu in range(4)} == {"SOC"}


NAMES = sorted(path.stem for path in (FIXTURES / "nvidia-smi-topo").glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_variants_say_the_same(name: str) -> None:
    text = text_of(f"nvidia-smi-topo/{name}.txt")
    plain = said(topo(name))
    for other in (text.replace("\n", "\r\n"), "root@h1:~# nvidia-smi topo -m\n" + text, text.replace("GPU0\t", "\x1b[4mGPU0\t", 1)):
        assert said(parse(other)) == plain


@pytest.mark.parametrize("name", NAMES)
def test_cut_anywhere_gives_no_other_value(name: str) -> None:
    text = text_of(f"nvidia-smi-topo/{name}.txt")
    whole = {(one.attribute.rpartition(":")[0] or one.attribute, one.value) for one in topo(name).facts if one.value is not None}
    for length in range(0, len(text), 3):
        for one in nvidia_smi_topo.PARSER.parse(Capture("f", text[:length].encode(), "h1")).facts:
            if one.value is not None and one.attribute != "gpu-count":
                assert (one.attribute.rpartition(":")[0] or one.attribute, one.value) in whole


def test_rows_that_contradict_each_other_are_a_conflict() -> None:
    text = text_of("nvidia-smi-topo/pcie_4gpu_phb.txt").replace("GPU1    PHB ", "GPU1    NV4 ")
    conflict = fact(parse(text), "gpu:0", "link-to:gpu:1")
    assert (conflict.status, conflict.note) == (Status.CONFLICT, "row GPU0 says PHB, row GPU1 in line 3 says NV4")


def test_peer_access_is_another_table_and_gives_no_relation() -> None:
    parsed = parse(text_of("nvidia-smi-topo-p2p/read_all_ok.txt"), nvidia_smi_topo_p2p.PARSER)
    assert {one.attribute.partition(":")[0] for one in parsed.facts} == {"peer-access-to"}
    assert [one.value for one in parsed.facts] == ["OK"] * 6
    assert parsed.skipped == ()


def test_peer_access_that_the_chipset_lacks_and_a_table_that_is_cut() -> None:
    text = text_of("nvidia-smi-topo-p2p/read_chipset.txt")
    parsed = parse(text, nvidia_smi_topo_p2p.PARSER)
    assert [fact(parsed, "gpu:0", f"peer-access-to:gpu:{gpu}").value for gpu in (1, 2, 3)] == ["OK", "CNS", "CNS"]
    cut = parse(text[: text.index("\n GPU2 ") + 1], nvidia_smi_topo_p2p.PARSER)
    assert "incomplete: rows GPU2, GPU3" in cut.skipped[-1].reason
    unknown = parse(text.replace("OK       CNS", "U        CNS", 1), nvidia_smi_topo_p2p.PARSER)
    assert fact(unknown, "gpu:0", "peer-access-to:gpu:1").status in (Status.CONFLICT, Status.UNKNOWN)


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3", 4), ("0-31,64-95", 64), ("5", 1), ("3-1", None), ("0-3,2-5", None), ("0-3,", None), ("٣", None), ("", None)]
)
def test_cpu_lists(text: str, cpus: int | None) -> None:
    ranges = ranges_of(text)
    assert (None if ranges is None else cpus_in(ranges)) == cpus


def test_D04_parting_needs_exactly_one_right_way() -> None:
    assert parted("0-31,64-950", intact={"32-63,96-127": "1"}) == ("0-31,64-95", "0")
    assert parted("0-31,64-950", intact={}) is None
    assert parted("0-31,64-951", intact={"32-63,96-127": "1"}) is None  # that node has other CPUs
