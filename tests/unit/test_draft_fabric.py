"""Switches and rails of a draft (M2, M3; D01, F03, F04)."""

from __future__ import annotations

from bridgehead.discovery.draft_fabric import cabling, leaf_of, rails
from bridgehead.discovery.knowledge import Knowledge, Told
from bridgehead.model.fabric import FabricId, SwitchRole
from bridgehead.model.fact import Status, Value

RATE = 4e11


def part(**values: Value) -> dict[str, Told]:
    return {name.replace("_", "-"): Told(value, Status.KNOWN) for name, value in values.items()}


def fabric(*, both_ends: bool = True) -> Knowledge:
    """Two leaves, one spine, a core; two hosts' adapters on each leaf, an aggregation node on the spine and on a leaf."""
    told: Knowledge = {f"switch:{name}": part(name=f"s-{name}", port_count=4, model="Q") for name in ("aa", "bb", "cc", "dd")}
    cables = [("aa", 1, "cc", 1), ("aa", 2, "cc", 2), ("bb", 1, "cc", 3), ("cc", 4, "dd", 1)]
    for one, port, other, far in cables:
        told[f"switch:{one}/port:{port}"] = part(peer=f"switch:{other}/port:{far}", rate=RATE)
        if both_ends:
            told[f"switch:{other}/port:{far}"] = part(peer=f"switch:{one}/port:{port}", rate=RATE)
    for leaf, guid in (("aa", "e1"), ("aa", "e2"), ("bb", "e3")):
        told[f"switch:{leaf}/port:1{guid[1]}"] = part(peer=f"adapter:{guid}/port:1", rate=RATE)
        told[f"adapter:{guid}/port:1"] = part(peer=f"switch:{leaf}/port:1{guid[1]}", port_guid=f"f{guid[1]}")
    for switch, guid in (("cc", "a1"), ("aa", "a2")):
        told[f"adapter:{guid}"] = part(role="aggregation-node")
        told[f"adapter:{guid}/port:1"] = part(peer=f"switch:{switch}/port:65")
        told[f"switch:{switch}/port:65"] = part(peer=f"adapter:{guid}/port:1", rate=RATE)
    return told


def test_switches_have_their_place_in_the_tree_and_aggregation_nodes_are_no_hosts() -> None:
    for both in (True, False):
        done = cabling(fabric(both_ends=both), FabricId("ib"))
        assert [(one.id, one.role) for one in done.switches] == [
            ("s-aa", SwitchRole.LEAF), ("s-bb", SwitchRole.LEAF), ("s-cc", SwitchRole.SPINE), ("s-dd", SwitchRole.CORE),
        ]  # fmt: skip
        by_id = {one.id: one for one in done.switches}
        assert [(up.id, up.count, up.rate_bps) for up in by_id["s-aa"].uplinks] == [("s-cc", 2, RATE)]
        assert [(up.id, up.count) for up in by_id["s-cc"].uplinks] == [("s-dd", 1)]
        assert (by_id["s-aa"].ports, by_id["s-bb"].ports, by_id["s-cc"].ports) == (3, 4, 3)


def test_order_of_facts_changes_nothing() -> None:
    told = fabric()
    assert cabling(dict(reversed(told.items())), FabricId("ib")) == cabling(told, FabricId("ib"))


def test_F03_switches_of_one_name_are_told_apart_by_guid() -> None:
    told = fabric()
    told["switch:bb"] = part(name="s-aa")
    told["switch:cc"] = part(name="MF0;spine:MQM/U1")
    assert {one.id for one in cabling(told, FabricId("ib")).switches} == {"aa", "bb", "cc", "s-dd"}


def test_adapters_find_their_leaf_by_guid() -> None:
    ends = cabling(fabric(), FabricId("ib")).leaf_of
    assert leaf_of(part(guid="e3"), ends) == "s-bb"
    assert leaf_of(part(guid="unknown", port_guid="f1"), ends) == "s-aa"
    assert leaf_of(part(guid="a1"), ends) is None, "an aggregation node is no adapter of a host"
    assert leaf_of(part(), ends) is None


def linked(**nics: str) -> dict[str, Told]:
    return {f"link-to:nic:{name}": Told(value, Status.KNOWN) for name, value in nics.items()}


def test_D01_adapter_that_is_near_no_gpu_is_on_no_rail() -> None:
    cards = {"0": linked(mlx5_0="SYS", mlx5_1="PIX", mlx5_2="SYS"), "1": linked(mlx5_0="SYS", mlx5_1="SYS", mlx5_2="PIX")}
    assert rails(cards) == {"mlx5_1": 0, "mlx5_2": 1}


def test_shared_adapters_have_one_gpu_each_where_their_numbers_agree() -> None:
    pair = linked(mlx5_2="PXB", mlx5_10="PXB", mlx5_7="NODE")
    assert rails({"0": pair, "1": pair}) == {"mlx5_2": 0, "mlx5_10": 1}
    assert rails({"0": linked(mlx5_0="PXB"), "1": linked(mlx5_0="PXB")}) == {}, "one adapter for two"
    assert rails({"0": linked(mlx5_0="PXB"), "1": linked(mlx5_0="PIX")}) == {"mlx5_0": 1}, "the closer one"
