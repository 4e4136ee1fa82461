"""The checker of plans: how long it takes, whether it accepts what the planner makes, and whether it finds what was damaged (issue 5).

Run: python bench/plan_checker.py [--write] [--estates 200] [--damages 500] [--seed 0]

Estates are generated in sizes from 150 to 1,500 GPUs, with and without hardware that is carried, with little and with much room. Each plan
that the planner makes is checked; then plans drawn from these are damaged at random (testing/plan_damage.py). A damage counts as found when
each rule that it breaks for certain fails, and as named when a finding of that rule names what was damaged.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from random import Random

from table import Table, machine, write_section

from bridgehead.app.example_estate import Example, example
from bridgehead.model.finding import FindingStatus
from bridgehead.model.plan import Plan
from bridgehead.planning.checker import check
from bridgehead.planning.no_plan import NoPlan
from bridgehead.planning.planner import make
from bridgehead.testing.plain_plan import plain_plan
from bridgehead.testing.plan_damage import damage_somehow

LIMIT_S = 15.0
SIZES = (1_000, 10_000, 100_000)

Made = tuple[Example, Plan]


def plans(count: int, seed: int) -> tuple[list[Made], Counter[str]]:
    """What the planner makes of random estates, and what became of all of them."""
    found: list[Made] = []
    fates: Counter[str] = Counter()
    for number in range(count):
        chance = Random(f"{seed}/{number}")
        given = example(
            chance.randint(150, 1_500), seed=chance.randint(0, 10**6), hardware=chance.random() < 0.7, used=chance.uniform(0.4, 0.85)
        )
        made = make(given.estate, given.policy, seed=number, time_limit_s=LIMIT_S, now_s=time.monotonic, progress=lambda _: None)
        if isinstance(made, NoPlan):
            fates["there is no plan, or none was found in time"] += 1
            continue
        odd = [one for one in check(made, given.estate, given.policy) if one.status is not FindingStatus.PASS]
        fates["accepted" if not odd else "refused"] += 1
        for one in odd[:3]:
            print(f"estate {number}: {one.code} {one.subject}: {one.text}", flush=True)
        if not odd:
            found.append((given, made))
        print(f"\r{number + 1} of {count}: {dict(fates)}", end="", flush=True)
    print()
    return found, fates


def damages(made: list[Made], count: int, seed: int) -> tuple[int, int, int]:
    """How many were found, how many named, and how many kinds there were."""
    found = named = 0
    kinds: set[str] = set()
    for number in range(count):
        chance = Random(f"{seed}/damage/{number}")
        given, plan = chance.choice(made)
        spoiled = damage_somehow(plan, given.estate, given.policy, chance=chance)
        kinds.add(spoiled.kind)
        failing = [one for one in check(spoiled.plan, given.estate, given.policy) if one.status is FindingStatus.FAIL]
        texts = {code: [f"{one.subject} {one.text}" for one in failing if one.code == code] for code in spoiled.codes}
        found += all(texts.values())
        good = all(any(name in text for text in found_texts for name in spoiled.names) for found_texts in texts.values())
        named += good
        if not good:
            print(f"damage {number}: {spoiled.kind} {spoiled.codes} {spoiled.names}")
    return found, named, len(kinds)


def speed() -> Table:
    """Time of one check."""
    table = Table("GPUs", "racks", "workloads", "findings", "time of one check (s)")
    for size in SIZES:
        given = example(size)
        plan = plain_plan(given.estate, given.policy)
        began = time.perf_counter()
        findings = check(plan, given.estate, given.policy)
        took = time.perf_counter() - began
        table.add(
            f"{size:,}", f"{len(given.estate.sites[0].racks):,}", f"{len(given.estate.workloads)}", f"{len(findings):,}", f"{took:.2f}"
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")
    parser.add_argument("--estates", type=int, default=20)
    parser.add_argument("--damages", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    made, fates = plans(args.estates, args.seed)
    found, named, kinds = damages(made, args.damages, args.seed)
    outcome = Table("what", "count")
    for fate, count in sorted(fates.items()):
        outcome.add(f"random estates: {fate}", str(count))
    outcome.add(f"random damages, of {kinds} kinds", str(args.damages))
    outcome.add("found", str(found))
    outcome.add("named", str(named))
    note = "The times are for plans of testing/plain_plan.py, which goes day by day; the damaged plans are the planner's."
    text = f"{machine()}\n\n{speed()}\n\n{outcome}\n\n{note}"
    print(text)
    if args.write:
        command = f"python bench/plan_checker.py --estates {args.estates} --damages {args.damages} --seed {args.seed}"
        write_section("checker of plans", command, text)


if __name__ == "__main__":
    main()
