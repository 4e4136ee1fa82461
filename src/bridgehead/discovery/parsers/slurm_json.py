"""Slurm's JSON: ``scontrol``, ``sinfo``, ``squeue``, ``sacct`` with ``--json``, and slurmrestd from v0.0.37 on (D16)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.json_items import Item, items_of
from bridgehead.discovery.jsontext import Unreadable
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Yield
from bridgehead.discovery.slurm_facts import JOB_YIELDS, NODE_YIELDS, PARTITION_YIELDS, STEP_YIELDS, SlurmFacts
from bridgehead.discovery.slurm_json_jobs import state_job
from bridgehead.discovery.slurm_json_nodes import inner, state_group, state_node, state_partition

_TOOL: Final = "slurm-json"
_LISTS: Final = frozenset({"nodes", "jobs", "partitions", "sinfo"})
_LIST: Final = re.compile(rb'"(?:nodes|jobs|partitions|sinfo)"\s*:\s*\[')
# What only Slurm calls so: the description of the plug-in, which stands at either end, or a field of an item.
_SLURM: Final = re.compile(
    rb'"(?:openapi|data_parser)\\?/v0\.0\.\d|"[Ss]lurm"\s*:\s*\{|"(?:real_memory|gres_drained|slurmd_start_time|job_state|tres_req_str'
    rb'|tres_per_node|allocation_nodes|derived_exit_code|preemption_grace_time|partition_sum|node_sets|gres_used|restart_cnt)"\s*:'
)


def recognises(head: bytes) -> bool:
    """One of the lists, and a word that is Slurm's own. Lines of JSON that belong to an exporter have no such list."""
    return (
        head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"$", b"#") and _LIST.search(head) is not None and _SLURM.search(head) is not None
    )


def parse(capture: Capture) -> Parsed:
    """All nodes, jobs and partitions of the document."""
    say = SlurmFacts(_TOOL, capture)
    for key, item in items_of(capture, _LISTS):
        if isinstance(item, Unreadable):
            say.skip(item.line, item.reason)
            continue
        match key:
            case "nodes" if "" not in item:
                state_node(say, item)
            case "jobs" if "" not in item:
                state_job(say, item)
            case "partitions" if "" not in item:
                state_partition(say, item)
            case "sinfo" if "" not in item:
                state_group(say, item)
            case "errors" | "warnings":
                _complaints(say, key, item)
            case "meta":
                _meta(say, item)
            case _:
                pass
    return say.done()


def _complaints(say: SlurmFacts, key: str, item: Item) -> None:
    found = item.get("")
    for one in found[:20] if isinstance(found, list) else []:
        text = one.get("description") or one.get("error") if isinstance(one, dict) else one
        say.skip(item.line, f"Slurm says in its {key}: {str(text)[:200]}")


def _meta(say: SlurmFacts, item: Item) -> None:
    meta = inner(item, "")
    held = inner(meta, "slurm") or inner(meta, "Slurm")
    name = held.get("cluster")
    if isinstance(held.get("release"), str) and isinstance(name, str) and name.strip():
        say.text(f"cluster:{name.strip().replace('/', '%2F')}", "slurm-version", held["release"], line=item.line)


PARSER = Parser(
    tool=_TOOL,
    command="scontrol show nodes --json; squeue --json; sinfo --json; sacct --json; slurmrestd",
    recognises=recognises,
    marks=(b'"nodes"', b'"jobs"', b'"partitions"', b'"sinfo"'),
    parse=parse,
    yields=(
        *NODE_YIELDS,
        *JOB_YIELDS,
        *STEP_YIELDS,
        *PARTITION_YIELDS,
        Yield("cluster:*", "slurm-version", "", "version of Slurm"),
    ),
)
