"""Weight changes under load: what traefik and haproxy lose, steered by Bridgehead's drivers, and how soon new weights are in force.

Run: ``python bench/traffic.py [--requests N] [--changes N] [--seed N] [--proxy NAME] [--write]``; ``--write`` puts the table into
docs/benchmarks.md. Exit code 1 when anything was lost or answered wrongly.

Two backends behind each proxy, on loopback. Clients ask without pause: half by POST, a tenth on fresh connections, a quarter of the
clients in sessions held by the proxy's cookie, one request in a hundred a stream of 1 to 2 s. Each answer must hold the token of its
request, and nothing is tried again. Meanwhile the weights are changed in random steps, 0 and 100 among them, each written and read back
by Bridgehead's driver before the next. What is asked and answered while known weights are in force must be spread by them; deviations are
counted in standard deviations of independent draws, and proxies that take turns should stay far below one. Both cores are saturated by
the load: latencies and times to read-back are those of a busy machine.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import re
import signal
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, MutableSequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import msgspec

from bridgehead.drivers.haproxy import HaproxyOptions, HaproxyService, HaproxyTraffic
from bridgehead.drivers.traefik import TraefikBackend, TraefikOptions, TraefikService, TraefikTraffic
from bridgehead.kernel.errors import Transient, Unknown
from bridgehead.kernel.ids import Epoch, RunId, ServiceId, SiteId, StepId
from bridgehead.kernel.streams import stream
from bridgehead.model.stamp import Stamp
from bridgehead.ports.traffic import Traffic
from bridgehead.testing import servers

sys.path.insert(0, str(Path(__file__).parent))
from table import Table, machine, write_section
from traffic_backend import serve
from traffic_client import CHANGING, DONE, ENOUGH, STREAM_MS, WEIGHTS, LoadOptions, Result, send

A, B, SERVICE = SiteId("a"), SiteId("b"), ServiceId("bench")
TARGET_S = 1.0
"""A weight change is applied and read back within this."""
GIVE_UP_S = 30.0
DEVIATING = 4.0
SPAWN = multiprocessing.get_context("spawn")
Weights = dict[SiteId, int]


class Changes(msgspec.Struct):
    """The weights by number, the seconds from the write to the read-back of each, and how often a call had to be repeated."""

    weights: list[Weights]
    took_s: list[float]
    repeated: int = 0


class Seen(msgspec.Struct):
    """All that one proxy's run gave. ``drift``: reconcile found other weights than desired at the end."""

    result: Result
    changes: Changes
    served: dict[SiteId, int]
    left_open: int
    drift: bool


@contextmanager
def traefik(ports: Mapping[SiteId, int], *, listen: str, folder: Path) -> Iterator[Traffic]:
    sites = {site: TraefikBackend(url=f"http://127.0.0.1:{port}", metrics_url=_metrics(port)) for site, port in ports.items()}
    options = TraefikOptions(
        dynamic_file=str(folder / "dynamic.yaml"),
        admin_url=f"http://127.0.0.1:{servers.free_port()}",
        services={SERVICE: TraefikService(sites=sites, initial={A: 100, B: 0})},
    )
    with servers.traefik(options, listen=listen, folder=folder):
        yield TraefikTraffic(options)


@contextmanager
def haproxy(ports: Mapping[SiteId, int], *, listen: str, folder: Path) -> Iterator[Traffic]:
    sites = {site: f"127.0.0.1:{port}" for site, port in ports.items()}
    options = HaproxyOptions(
        socket=str(folder / "run.sock"),
        master_socket=str(folder / "master.sock"),
        state_file=str(folder / "state.json"),
        config_file=str(folder / "haproxy.cfg"),
        services={SERVICE: HaproxyService(listen=listen, sites=sites, initial={A: 100, B: 0})},
    )
    with servers.haproxy(options, folder=folder):
        yield HaproxyTraffic(options)


PROXIES = {"traefik": traefik, "haproxy": haproxy}


def _metrics(port: int) -> str:
    return f"http://127.0.0.1:{port}/metrics"


@contextmanager
def process(work: Callable[..., None], *arguments: object) -> Iterator[Pipe]:
    """A process of this bench that reports on the pipe; it has ended when the ``with`` block has."""
    ours, theirs = SPAWN.Pipe(duplex=False)
    started = SPAWN.Process(target=work, args=(*arguments, theirs), daemon=True)
    started.start()
    theirs.close()
    try:
        yield ours
    finally:
        started.terminate()
        started.join(5.0)
        started.kill()
        started.join()


def planned(seed: int, name: str, changes: int) -> list[Weights]:
    """The initial weights and ``changes`` others: each differs from the one before; a fifth leaves a site with 0."""
    random = stream(seed, "weights", name)
    weights = [{A: 100, B: 0}]
    while len(weights) <= changes:
        a = random.choice((0, 100)) if random.random() < 0.2 else random.randint(1, 99)
        if a != weights[-1][A]:
            weights.append({A: a, B: 100 - a})
    return weights


def change_weights(
    driver: Traffic, plan: list[Weights], shared: MutableSequence[int], *, requests: int, over: Callable[[], bool]
) -> Changes:
    """Bring the planned weights into force one after the other, spread over the requests; ends early when the client is over."""
    changes = Changes([plan[0]], [])
    for number, weights in enumerate(plan[1:], start=1):
        while shared[DONE] < number * requests / len(plan):
            if over():
                return changes
            time.sleep(0.002)
        stamp = Stamp(run=RunId("bench"), step=StepId(f"w{number}"), attempt=1, epoch=Epoch(1))
        shared[WEIGHTS] = CHANGING
        began_s = time.perf_counter()
        written = False
        while True:
            try:
                if not written:
                    driver.write(SERVICE, weights, stamp=stamp)
                    written = True
                if driver.read(SERVICE) == weights:
                    break
            except (Transient, Unknown):
                changes.repeated += not written  # a read that says "not loaded yet" is no repeat
            if time.perf_counter() - began_s > GIVE_UP_S:
                raise TimeoutError(f"change {number} to {weights} is not in force after {GIVE_UP_S} s")
            time.sleep(0.005)
        changes.took_s.append(time.perf_counter() - began_s)
        changes.weights.append(weights)
        shared[WEIGHTS] = number
    return changes


def measure(name: str, *, requests: int, changes: int, seed: int, limit_s: float) -> Seen:
    """One proxy, from its start to its end."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ports = {site: stack.enter_context(process(serve, site)).recv() for site in (A, B)}
        listen = servers.free_port()
        driver = stack.enter_context(PROXIES[name](ports, listen=f"127.0.0.1:{listen}", folder=folder))
        shared = SPAWN.RawArray("q", 3)
        options = LoadOptions(port=listen, requests=requests, seed=seed, limit_s=limit_s)
        report = stack.enter_context(process(send, options, shared))
        made = change_weights(driver, planned(seed, name, changes), shared, requests=requests, over=report.poll)
        shared[ENOUGH] = 1
        result: Result = report.recv()
        # A proxy notices the end of a stream at the client a moment after the client does.
        time.sleep(0.5)
        left_open = sum(driver.in_flight(SERVICE, site) for site in (A, B))
        served = {site: _served(port) for site, port in ports.items()}
        return Seen(result, made, served, left_open, driver.reconcile(SERVICE))


def _served(port: int) -> int:
    with urllib.request.urlopen(_metrics(port), timeout=5.0) as answer:
        return int(re.search(r"^requests_total (\d+)", answer.read().decode(), re.MULTILINE)[1])


class Split(msgspec.Struct):
    """Requests without cookie that were asked and answered while the same known weights were in force.

    Attributes:
        asked: how many of them should have gone to b, by the weights under which each was asked.
        deviation: largest distance of the split after one change from what was asked, in standard deviations.
        deviating: changes after which that distance was more than ``DEVIATING``.
        forbidden: requests, with cookie too, that a site of weight 0 got.
    """

    requests: int = 0
    asked: float = 0.0
    seen: int = 0
    deviation: float = 0.0
    deviating: int = 0
    forbidden: int = 0


def split_of(seen: Seen) -> Split:
    split = Split()
    for number, weights in enumerate(seen.changes.weights):
        count = {site: seen.result.split[number, site, False] for site in (A, B)}
        total, share = sum(count.values()), weights[B] / 100
        split.requests += total
        split.asked += total * share
        split.seen += count[B]
        if 0 < share < 1 and total:
            deviation = abs(count[B] - total * share) / math.sqrt(total * share * (1 - share))
            split.deviation = max(split.deviation, deviation)
            split.deviating += deviation > DEVIATING
        split.forbidden += sum(count[site] + seen.result.split[number, site, True] for site in (A, B) if weights[site] == 0)
    return split


def quantile(values: list[float], part: float) -> float:
    return values[min(len(values) - 1, math.ceil(part * len(values)) - 1)]


def column(seen: Seen) -> dict[str, str]:
    """The figures of one proxy by their names."""
    result, made, split = seen.result, seen.changes, split_of(seen)
    kinds, total = result.kinds, result.outcomes.total()
    took_s, latencies_s = sorted(made.took_s), sorted(result.latencies_s)
    late = sum(took > TARGET_S for took in took_s)
    at = {name: f"{quantile(took_s, part):.3f} s" if took_s else "–" for name, part in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))}
    ms = {name: f"{quantile(latencies_s, part) * 1000:,.1f} ms" for name, part in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}
    return {
        "requests": f"{total:,}",
        "… by POST": f"{kinds['POST']:,}",
        "… on fresh connections": f"{kinds['fresh']:,}",
        "… in sessions (cookie)": f"{kinds['session']:,}",
        f"… streams of {STREAM_MS[0] / 1000:g} to {STREAM_MS[1] / 1000:g} s": f"{kinds['stream']:,}",
        "failed": f"{result.outcomes['failed']:,}",
        "wrong answers": f"{result.outcomes['wrong']:,}",
        "streams cut": f"{result.outcomes['cut']:,}",
        "counted by the sites": f"{sum(seen.served.values()):,}",
        "still open at the end": f"{seen.left_open:,}",
        "weight changes made": f"{len(took_s):,}",
        "write to read-back, median": at["p50"],
        "write to read-back, p95": at["p95"],
        "write to read-back, max": at["max"],
        f"… later than {TARGET_S:g} s": f"{late:,}",
        "writes that had to be repeated": f"{made.repeated:,}",
        "drift at the end": "yes" if seen.drift else "no",
        "asked at b": f"{split.asked / split.requests:.3%}" if split.requests else "–",
        "seen at b": f"{split.seen / split.requests:.3%}" if split.requests else "–",
        f"changes after which the split was off by more than {DEVIATING:g} standard deviations": f"{split.deviating:,}",
        "… by at most": f"{split.deviation:.1f}",
        "requests to a site of weight 0": f"{split.forbidden:,}",
        "requests per second": f"{total / result.duration_s:,.0f}",
        "latency p50": ms["p50"],
        "latency p99": ms["p99"],
        "latency max": ms["max"],
    }


def wanted(changes: int) -> dict[str, str]:
    none = dict.fromkeys(("failed", "wrong answers", "streams cut", "still open at the end", "requests to a site of weight 0"), "0")
    return none | {
        "counted by the sites": "the same",
        "weight changes made": f"{changes:,}",
        f"… later than {TARGET_S:g} s": "0",
        "drift at the end": "no",
        "seen at b": "as asked",
        f"changes after which the split was off by more than {DEVIATING:g} standard deviations": "0",
    }


def is_clean(seen: Seen, *, requests: int, changes: int) -> bool:
    """Nothing lost, nothing wrong, nothing counted differently, and as much done as was asked."""
    outcomes = seen.result.outcomes
    return (
        outcomes.total() == outcomes["ok"] == sum(seen.served.values())
        and outcomes.total() >= requests
        and len(seen.changes.took_s) == changes
        and not (seen.left_open or seen.drift or split_of(seen).forbidden)
    )


def end(number: int, _: object) -> None:
    """SIGTERM and SIGHUP leave as an exception, so that everything started is ended."""
    sys.exit(128 + number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000, help="through each proxy")
    parser.add_argument("--changes", type=int, default=1_000, help="of the weights, of each proxy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--proxy", choices=PROXIES, action="append", help="one of them only")
    parser.add_argument("--limit-s", type=float, default=1800.0, help="ends each proxy's run")
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks.md")
    asked = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)
    names = asked.proxy or list(PROXIES)
    columns, failures, clean = [], [], True
    for name in names:
        seen = measure(name, requests=asked.requests, changes=asked.changes, seed=asked.seed, limit_s=asked.limit_s)
        columns.append(column(seen))
        failures += [f"- {name}: {failure}" for failure in seen.result.failures]
        clean &= is_clean(seen, requests=asked.requests, changes=asked.changes)
    table = Table("figure", *names, "wanted")
    for figure in columns[0]:
        table.add(figure, *(cells[figure] for cells in columns), wanted(asked.changes).get(figure, ""))
    what = (__doc__ or "").strip().split("\n\n")[-1]
    text = f"{what}\n\n{machine()}\n\n{table}"
    if failures:
        text += "\n\nThe first failures:\n\n" + "\n".join(failures)
    print(text)
    if asked.write:
        options = f" --requests {asked.requests} --changes {asked.changes} --seed {asked.seed}"
        write_section("traffic", f"python bench/traffic.py{options} --write", text)
    sys.exit(not clean)


if __name__ == "__main__":
    main()
