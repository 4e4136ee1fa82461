"""Unknown is never green: each fact in turn is taken away or made old, and nothing passes through it (R1, R6; J01)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bridgehead.kernel.ids import SiteId
from bridgehead.model.estate import Grace, Workload
from bridgehead.model.finding import FindingStatus
from bridgehead.ports.training import TrainerState
from bridgehead.recovery.watch.exposure import exposure_of
from bridgehead.recovery.watch.facts import CopyPoint, DrillPoint, ServiceFacts, Sighted, at
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.liveness import Evidence, EvidenceKind, Limits, Sight, SiteClock, SiteState, site_verdict
from bridgehead.recovery.watch.readiness import CODES, judge
from bridgehead.recovery.watch.scene import Credential, Scene
from bridgehead.testing.watch_bed import CHAT, HOUR_S, LM, NOW_S, RPO_S, A, B, full, point, with_trainer, with_vault

PASS, FAIL, UNKNOWN = FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN
replace = msgspec.structs.replace


def with_work(given: Scene, **changes: Any) -> Scene:
    def changed(work: Workload) -> Workload:
        return replace(work, **changes) if work.id == LM else work

    estate_ = replace(given.estate, workloads=tuple(map(changed, given.estate.workloads)))
    return replace(given, estate=estate_, protected=tuple(replace(one, workload=changed(one.workload)) for one in given.protected))


def with_nodes(given: Scene, site: SiteId, **changes: Any) -> Scene:
    sites = tuple(
        replace(one, nodes=tuple(replace(node, **changes) for node in one.nodes)) if one.id == site else one for one in given.estate.sites
    )
    return replace(given, estate=replace(given.estate, sites=sites))


def with_links(given: Scene, **changes: Any) -> Scene:
    return replace(given, estate=replace(given.estate, links=tuple(replace(link, **changes) for link in given.estate.links)))


def troubled() -> dict[str, Scene]:
    """Scenes in which something fails or will fail, at least one for each kind of finding that can be put into a scene."""
    good = full()
    old = point(100, age_s=2 * RPO_S)
    ahead = point(9500, age_s=-60)
    uncopied = point(2, age_s=2 * RPO_S)
    chat_at_a = at("chat", A)
    cold = replace(good.facts, services={**good.facts.services, chat_at_a: Sighted(ServiceFacts(False, ""), NOW_S)})
    mixed = (*good.estate.sites[1].nodes, replace(good.estate.sites[1].nodes[0], id="gpu-2", firmware={"driver": "535.104"}))
    older = tuple(replace(site, nodes=mixed) if site.id == B else site for site in good.estate.sites)
    return {
        "WCH-SNAPSHOT": with_vault(good, LM, A, points=(old,)),
        "WCH-SNAPSHOT torn": with_vault(good, LM, A, passed_over="block x"),
        "WCH-RPO": with_vault(good, LM, B, copies=(CopyPoint(old, NOW_S),)),
        "WCH-RPO holding": with_trainer(with_vault(good, LM, B, copies=(CopyPoint(old, NOW_S),)), state=TrainerState.HOLDING),
        "WCH-RPO of a model": with_vault(good, CHAT, A, points=(uncopied, *with_points(good, CHAT, A)), usable=2),
        "WCH-RTO": with_vault(good, LM, B, bytes_per_s=1e3),
        "WCH-DRILL": with_vault(good, LM, B, drill=DrillPoint(old.id, NOW_S - 8 * 86_400, 1.0, True, "")),
        "WCH-DRILL failed": with_vault(good, LM, B, drill=DrillPoint(old.id, NOW_S - 60, 1.0, False, "block x")),
        "WCH-SPARE": with_nodes(good, B, gpus=4),
        "WCH-SPARE of another model": with_work(good, gpu_model="B200"),
        "WCH-PATHS": with_links(good, carrier="Nordlys"),
        "WCH-PATHS slow": with_links(good, failover_s=30.0),
        "WCH-COVER": with_vault(good, LM, B, copies=()),
        "WCH-DATA": with_vault(good, "corpus", B, copies=()),
        "WCH-BACKEND": replace(good, facts=cold),
        "WCH-CREDENTIAL": replace(good, credentials=(Credential("/etc/x.pem", "vault", NOW_S - 1),)),
        "WCH-CREDENTIAL soon": replace(good, credentials=(Credential("/etc/x.pem", "vault", NOW_S + 86_400),)),
        "WCH-VERSIONS": with_nodes(good, B, firmware={"driver": "535.104", "cuda": "12.4", "nccl": "2.21"}),
        "WCH-VERSIONS of one node": replace(good, estate=replace(good.estate, sites=older)),
        "WCH-GRACE": with_work(good, save_s=61.0, checkpoint_bytes=1000, store="s", graces=(Grace("slurm", 60.0),)),
        "WCH-GPU": with_work(good, gpu_model="B200"),
        "WCH-FENCE": with_vault(good, LM, B, epoch=1, holder=B),
        "WCH-FENCE apart": with_vault(good, LM, B, epoch=1, holder=A),
        "WCH-CLOCK": with_vault(good, LM, A, points=(ahead,)),
        "WCH-CLOCK of a trainer": with_trainer(good, reported_s=NOW_S + 60),
    }


def with_points(given: Scene, workload: str, site: SiteId) -> tuple[Any, ...]:
    known = given.facts.vaults[at(workload, site)].value
    assert known is not None
    return known.points


SKIPPED = {
    # What is declared and not seen: without them the question is another one, or is not asked at all.
    ("Protected", "rpo_s"), ("Protected", "rto_s"), ("Protected", "refuge"), ("Protected", "objective"), ("Protected", "jobs"),
    ("Protected", "services"), ("Workload", "datasets"), ("Workload", "objective"), ("Estate", "workloads"), ("Estate", "services"),
    ("Estate", "datasets"), ("Site", "connections"), ("Service", "serving"), ("Service", "workload"), ("Scene", "protected_"),
    # A trouble that was seen, in words. It is not forgotten, its vault is.
    ("VaultFacts", "passed_over"), ("DrillPoint", "happened"),
    # Made of others: they are judged by themselves below.
    ("Scene", "verdicts"), ("Scene", "needs"), ("Scene", "terms"), ("Scene", "used"), ("Scene", "credentials"), ("Scene", "witness"),
    ("Scene", "declared_s"),
}  # fmt: skip
TIMES = {"created_s", "reported_s", "speed_s", "at_s", "proved_s"}


OPTIONAL = {
    ("VaultFacts", "drill"), ("VaultFacts", "bytes_per_s"), ("VaultFacts", "speed_s"), ("ServiceFacts", "weight"),
    ("Credential", "expires_s"), ("Workload", "save_s"), ("Workload", "warm_up_s"), ("Workload", "min_gpus"),
    ("Workload", "checkpoint_bytes"), ("Link", "failover_s"), ("Link", "path"),
}  # fmt: skip


def lacking(value: Any, owner: str = "", field: str = "") -> Iterator[tuple[str, Any]]:
    """The value with one thing in it taken away, or made an hour older: (what, changed)."""
    if isinstance(value, Sighted):
        yield "never seen", Sighted()
        yield "never seen, with a reason", Sighted(None, None, "no answer")
        if value.seen_s is not None:
            yield "old", Sighted(value.value, value.seen_s - HOUR_S, "no answer")
            yield "from ahead", Sighted(value.value, value.seen_s + HOUR_S, "the clock was set back")
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            if (type(value).__name__, name) not in SKIPPED:
                for what, changed in lacking(getattr(value, name), type(value).__name__, name):
                    yield f"{name}: {what}", replace(value, **{name: changed})
    elif isinstance(value, dict | tuple):
        yield from _lacking_within(value, owner, field)
    elif isinstance(value, str) and field in ("gpu_model", "carrier", "holder", "store", "snapshot"):
        yield "empty", ""
    elif field in TIMES and isinstance(value, float):
        yield "an hour older", value - HOUR_S
    if value is not None and (owner, field) in OPTIONAL:
        yield "none", None


def _lacking_within(value: dict[Any, Any] | tuple[Any, ...], owner: str, field: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, one in value.items():
            if field not in ("trainers", "jobs", "vaults"):  # that such a key is missing says that nothing is connected
                yield f"{key} gone", {name: other for name, other in value.items() if name != key}
            for what, changed in lacking(one, owner, f"{field}[]"):
                yield f"{key}: {what}", {**value, key: changed}
        return
    if value and field not in ("sites", "protected"):
        yield "no entries", ()
    for number, one in enumerate(value):
        for what, changed in lacking(one, owner, f"{field}[]"):
            yield f"{number}: {what}", (*value[:number], changed, *value[number + 1 :])


def by_key(given: Scene) -> dict[str, WatchFinding]:
    return {finding.key: finding for finding in judge(given)}


def green(finding: WatchFinding | None) -> bool:
    return finding is not None and finding.status is PASS and not finding.foreseen


def same_workloads(given: Scene) -> Scene:
    """A workload is told twice, in the estate and with its recovery: what is taken away is taken from both."""
    by_id = {work.id: work for work in given.estate.workloads}
    return replace(given, protected=tuple(replace(one, workload=by_id[one.id]) for one in given.protected))


def mended(finding: WatchFinding, what: str) -> bool:
    """What lay in the future and is an hour older, or is no longer there, lies there no more."""
    ahead = "future" in finding.text or "ahead of this observer" in finding.text
    return ahead and ("an hour older" in what or "points: no entries" in what)


TROUBLED = troubled()


def test_the_full_scene_is_green_and_has_every_kind_of_finding() -> None:
    found = judge(full())
    assert [f"{one.key}: {one.text}" for one in found if not green(one)] == []
    assert {one.code for one in found} == {code.code for code, _ in CODES}


def test_every_kind_of_finding_is_in_trouble_in_some_scene() -> None:
    """Else nothing would be tried with it. Sites, and objectives, which are declared, are tried below."""
    for name, given in TROUBLED.items():
        assert [one for one in judge(given) if one.code == name.split()[0] and not green(one)], name
    in_trouble = {name.split()[0] for name in TROUBLED} | {"WCH-SITE", "WCH-OBJECTIVE", "WCH-NEEDS", "WCH-WITNESS"}
    assert in_trouble == {code.code for code, _ in CODES}


@pytest.mark.parametrize("name", ["all is green", *TROUBLED])
def test_no_finding_becomes_a_pass_by_a_fact_that_is_gone_or_old(name: str) -> None:
    given = full() if name == "all is green" else TROUBLED[name]
    before = by_key(given)
    bad = [key for key, finding in before.items() if not green(finding)]
    tried = 0
    for what, changed in lacking(given):
        if what.startswith("protected"):
            continue  # by the estate
        tried += 1
        after = by_key(same_workloads(changed))
        passed = [f"{what}: {key} passes: {after[key].text}" for key in bad if green(after.get(key)) and not mended(before[key], what)]
        assert passed == []
    assert tried > 100


def test_the_loss_never_shrinks_by_a_fact_that_is_gone_or_old() -> None:
    for name, given in {"all is green": full(), **TROUBLED}.items():
        lost = [exposure_of(given, one).lost_s for one in given.protected]
        for what, changed in lacking(given.facts):
            if what.startswith(("trainers", "vaults")) and "step_ended_s" not in what:
                now = [exposure_of(replace(given, facts=changed), one).lost_s for one in given.protected]
                for was_s, is_s in zip(lost, now, strict=True):
                    assert is_s is None or (was_s is not None and is_s >= was_s), f"{name}: {what}: {was_s} -> {is_s}"


RESTS_ON = {
    ("vaults", at(LM, A)): {"WCH-SNAPSHOT lm@site-a", "WCH-COVER lm", "WCH-FENCE lm", "WCH-CLOCK site-a"},
    ("vaults", at(LM, B)): {"WCH-RPO lm@site-a", "WCH-RTO lm@site-b", "WCH-DRILL lm@site-b", "WCH-COVER lm", "WCH-FENCE lm"},
    ("vaults", at(CHAT, A)): {"WCH-RPO chat@site-a", "WCH-SNAPSHOT chat@site-a", "WCH-COVER chat", "WCH-FENCE chat", "WCH-CLOCK site-a"},
    ("vaults", at(CHAT, B)): {"WCH-RPO chat@site-a", "WCH-RTO chat@site-b", "WCH-DRILL chat@site-b", "WCH-COVER chat", "WCH-FENCE chat"},
    ("vaults", at("corpus", B)): {"WCH-DATA dataset:corpus", "WCH-NEEDS lm@site-b"},
    ("trainers", at(LM, A)): {"WCH-CLOCK site-a"},
    ("services", at("chat", A)): {"WCH-BACKEND chat@site-a"},
    ("services", at("chat", B)): {"WCH-BACKEND chat@site-b"},
    ("jobs", at("lm", A)): set(),
}
"""What of the full scene is no longer known without each observation. The trainer's absence is counted as loss, not as unknown."""


@pytest.mark.parametrize(("kind", "key"), RESTS_ON)
@pytest.mark.parametrize("how", ["never", "gone", "old", "ahead"])
def test_exactly_what_rests_on_an_observation_is_unknown_without_it(kind: str, key: str, how: str) -> None:
    given = full()
    observed = getattr(given.facts, kind)
    value = observed[key].value
    changed = {
        "never": {**observed, key: Sighted()},
        "gone": {name: one for name, one in observed.items() if name != key},
        "old": {**observed, key: Sighted(value, NOW_S - HOUR_S)},
        "ahead": {**observed, key: Sighted(value, NOW_S + HOUR_S)},
    }[how]
    found = judge(replace(given, facts=replace(given.facts, **{kind: changed})))
    wanted = RESTS_ON[kind, key] if (kind, how) != ("trainers", "gone") else set()  # then no trainer is connected
    assert {one.key for one in found if one.status is UNKNOWN} == wanted
    assert all(one.measurement for one in found if one.status is UNKNOWN)
    assert [one.key for one in found if one.status is FAIL] == []


def test_without_any_observation_nothing_that_rests_on_one_passes() -> None:
    given = full()
    empty = replace(given, facts=type(given.facts)(), verdicts={})
    rests = {key.split()[0] for keys in RESTS_ON.values() for key in keys} | {"WCH-WITNESS"}
    assert {one.code for one in judge(empty) if one.status is PASS} & rests == set()


@pytest.mark.parametrize("witness", [Sighted(), Sighted(True, NOW_S - HOUR_S), Sighted(True, NOW_S + HOUR_S), Sighted(None, None, "no")])
def test_a_witness_that_does_not_answer_is_not_green(witness: Sighted[bool]) -> None:
    given = full()
    [found] = [one for one in judge(replace(given, facts=replace(given.facts, witness=witness))) if one.code == "WCH-WITNESS"]
    assert found.status is UNKNOWN


def clock(contact_s: float | None, first_loss_s: float | None, looked_s: float | None, misses: int) -> SiteClock:
    return SiteClock(A, contact_s=contact_s, first_loss_s=first_loss_s, looked_s=looked_s, misses=misses)


@pytest.mark.parametrize("sure", [True, False])
@pytest.mark.parametrize("evidence", [True, False])
def test_a_site_is_green_only_by_a_sign_of_life_that_is_surely_fresh(sure: bool, evidence: bool) -> None:
    """Whatever else of its clock is missing or old."""
    ages = (None, 5.0, HOUR_S)
    against = [Evidence(A, EvidenceKind.DECLARED, "ann", "fire", NOW_S - 30)] if evidence else []
    for contact in ages:
        for lost in ages:
            for looked in ages:
                given = clock(*(None if age is None else NOW_S - age for age in (contact, lost, looked)), misses=3 if lost else 0)
                for sights in ([], [Sight("o", given, sure=sure)], [Sight("o", given, sure=sure), Sight("p", given, sure=False)]):
                    found = site_verdict(A, sights=sights, evidence=against, now_s=NOW_S, limits=Limits())
                    if found.state is SiteState.ALIVE:
                        assert sights
                        assert sure
                        assert contact == 5.0
                    if not against:
                        assert found.state is not SiteState.LOST
