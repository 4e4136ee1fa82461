"""Estate files: read, derived values, references by scope, differences by identity, JSON Schema."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from bridgehead.app.estate_files import check_files
from bridgehead.app.wiring import connect, driver_options
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.difference import differences
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import estate_data, estate_schema, read_estate, write_estate
from bridgehead.model.power import Circuit, CircuitId, Wiring

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "examples" / "estate.yaml").read_text(encoding="utf-8")
BAD = ROOT / "tests" / "golden" / "bad" / "estate"
BEYOND_SCHEMA = {
    "alias_in_itself", "bad_driver_options", "control_character", "dependency_cycle", "duplicate_key", "empty", "impossible_numbers",
    "not_yaml", "reference_to_another_site", "tab", "tag", "two_documents", "unknown_need", "unknown_site", "same_id_twice", "yes_and_no",
}  # fmt: skip
"""Faults in the text itself, or between several fields: no JSON Schema can say them (or the schema's own YAML reader differs)."""


def example() -> Estate:
    return read_estate(EXAMPLE, file="estate.yaml", drivers=driver_options())


def test_M5_2_example_is_read_into_si() -> None:
    estate = example()
    site = estate.sites[0]
    assert (site.id, site.power_w, site.gpus, site.energy_price.per_kwh) == ("site-a", 400_000.0, 16, 0.24)
    assert site.nodes[0].nics[1].rate_bps == 4e11
    assert site.stores[0].write_bps == 2.24e10
    lm = estate.workloads[0]
    assert (lm.total_checkpoint_bytes, lm.restore_s, lm.pausable, lm.min_gpus) == (840 * 10**9, 1200.0, True, 8)
    assert estate.links[0].between == ("site-a", "site-b")


def test_written_estate_reads_back_equal() -> None:
    estate = example()
    assert read_estate(write_estate(estate, drivers=driver_options()), file="x", drivers=driver_options()) == estate
    assert msgspec.json.decode(msgspec.json.encode(estate), type=Estate) == estate


def test_M8_3_checkpoint_size_per_gpu_and_in_total_are_different_fields() -> None:
    text = "estate: x\nsites: {a: {}}\nworkloads: {w: {kind: training, site: a, gpus: 512, checkpoint_per_gpu: 1 TB}}\n"
    assert read_estate(text, file="x").workloads[0].total_checkpoint_bytes == 512 * 10**12


def circuit(voltage_v: float, current_a: float, wiring: Wiring, continuous: float | None) -> Circuit:
    return Circuit(CircuitId("c"), voltage_v, current_a, wiring, continuous)


@pytest.mark.parametrize(
    ("vector", "one", "va"),
    [
        ("PW1", circuit(120, 20, Wiring.SINGLE_PHASE, 0.8), 1_920),
        ("PW2", circuit(240, 30, Wiring.SINGLE_PHASE, 0.8), 5_760),
        ("PW4", circuit(208, 30, Wiring.THREE_PHASE_LINE_TO_LINE, 0.8), 8_646),
        ("PW5", circuit(208, 60, Wiring.THREE_PHASE_LINE_TO_LINE, 0.8), 17_293),
        ("PW7", circuit(230, 32, Wiring.THREE_PHASE_LINE_TO_NEUTRAL, 1), 22_080),
        ("PW8", circuit(230, 63, Wiring.THREE_PHASE_LINE_TO_NEUTRAL, 1), 43_470),
        ("PW9", circuit(400, 32, Wiring.THREE_PHASE_LINE_TO_LINE, 1), 22_170),
        ("PW10", circuit(50, 2_400, Wiring.DC, 1), 120_000),
    ],
)
def test_E03_rating_of_a_circuit(vector: str, one: Circuit, va: float) -> None:
    assert one.continuous_va == pytest.approx(va, rel=1e-3), vector


def test_unknown_continuous_share_stays_unknown() -> None:
    assert circuit(230, 32, Wiring.SINGLE_PHASE, None).continuous_va is None


def test_connections_are_what_wiring_takes(tmp_path: Path) -> None:
    text = EXAMPLE.replace("/srv", str(tmp_path)).replace("timeout: 10 s", "timeout: 1500 ms")
    connections = read_estate(text, file="x", drivers=driver_options()).connections()
    assert connections["sites"]["site-b"]["vault"] == {"driver": "http", "url": "http://127.0.0.1:9200", "timeout_s": 1.5}
    ports = connect(connections)
    assert set(ports.schedulers) == {"site-a", "site-b"}
    assert set(ports.servings) == {"chat"}


def test_options_stay_as_written_without_drivers() -> None:
    text = "estate: x\nsites: {a: {connections: {scheduler: {driver: mine, where: /x, often: 3}}}}\n"
    connection = read_estate(text, file="x").sites[0].connections.scheduler
    assert connection is not None
    assert connection.flat() == {"driver": "mine", "where": "/x", "often": 3}


def test_order_makes_no_difference_and_every_field_does() -> None:
    before = estate_data(example(), drivers=driver_options())
    shuffled = yaml.safe_load(yaml.safe_dump(before, sort_keys=True))
    shuffled["links"]["north"]["between"].reverse()
    shuffled["sites"]["site-a"]["racks"]["r1"]["circuits"].reverse()
    assert differences(before, shuffled) == []
    assert differences(before, before | {"links": {}}) != []


def leaves(data: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(data, dict):
        return [leaf for key, value in data.items() for leaf in leaves(value, (*path, key))]
    return [path]


def test_each_single_change_is_found_at_its_place() -> None:
    before = estate_data(example(), drivers=driver_options())
    for path in leaves(before):
        after = msgspec.json.decode(msgspec.json.encode(before))
        place = after
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = "something else"
        (difference,) = differences(before, after)
        assert (difference.path, difference.word) == (".".join(path), "changed")
        del place[path[-1]]
        (difference,) = differences(before, after)
        assert (difference.path, difference.word) == (".".join(path), "removed")
        (difference,) = differences(after, before)
        assert (difference.path, difference.word) == (".".join(path), "added")


def test_schema_accepts_the_example() -> None:
    schema = estate_schema(driver_options())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(EXAMPLE), schema)


@pytest.mark.parametrize("path", [p for p in sorted(BAD.glob("*.yaml")) if p.stem not in BEYOND_SCHEMA], ids=lambda path: path.stem)
def test_schema_refuses_what_it_can_express(path: Path) -> None:
    validator = jsonschema.Draft202012Validator(estate_schema(driver_options()))
    assert list(validator.iter_errors(yaml.safe_load(path.read_text(encoding="utf-8"))))


def test_files_are_checked_against_each_other(tmp_path: Path) -> None:
    estate, policy = tmp_path / "estate.yaml", tmp_path / "policy.yaml"
    estate.write_text(EXAMPLE.replace("objective: serving", "objective: servng", 1), encoding="utf-8")
    policy.write_text(
        (ROOT / "examples" / "policy.yaml").read_text(encoding="utf-8").replace("target: site-b", "target: site-c"), encoding="utf-8"
    )
    alone = [one for path in (estate, policy) for one in check_files([path])]
    assert all(one.content is not None for one in alone), "alone, neither can know"
    first, second = check_files([estate, policy])
    assert [(fault.path, fault.found) for fault in first.faults] == [
        ("workloads.chat-model.objective", "the policy has no objective 'servng'")
    ]
    assert [(fault.path, fault.found) for fault in second.faults] == [("target", "the estate has no site 'site-c'")]


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BridgeheadError) as caught:
        check_files([tmp_path / "none.yaml"])
    assert caught.value.code is ErrorCode.BAD_INPUT
