"""``bridgehead example``: estates to try things with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

app = App(name="example", help="Write generated estates and policies to try things with.")


@app.command
def estate(
    *,
    gpus: int = 1000,
    seed: int = 0,
    output: Annotated[Path, Parameter(name=("--output", "-o"))],
    equipped: Annotated[bool, Parameter(negative="")] = False,
    used: float = 0.7,
) -> None:
    """Write a generated estate of two halls, and the policy of the move between them: DIR/estate.yaml and DIR/policy.yaml.

    Args:
        gpus: GPUs at the source, rounded up to whole racks.
        seed: another one gives other workloads.
        output: the folder that is written to; it is made when it is not there.
        equipped: the target has nodes of its own, so that no hardware is carried.
        used: share of the GPUs that workloads use.
    """
    from bridgehead.app.example_estate import example, write_example

    made = example(gpus, seed=seed, hardware=not equipped, used=used)
    for path in write_example(made, output):
        print(f"wrote {path}")
    site = made.estate.sites[0]
    print(f"{site.gpus:,} GPUs in {len(site.racks)} racks, {len(made.estate.workloads)} workloads")
    print(f"next: bridgehead plan make {output}/estate.yaml {output}/policy.yaml -o {output}/plan.yaml")
