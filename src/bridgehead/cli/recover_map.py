"""``bridgehead recover map`` and ``recover preflight``: a job of one site becomes a job of the other, and everything it needs is there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode
from bridgehead.kernel.ids import SiteId

if TYPE_CHECKING:
    from bridgehead.model.finding import Finding
    from bridgehead.recovery.site_mapping import Mapped


def map_job(
    script: Path,
    /,
    *,
    source: Annotated[str, Parameter(name="--from")],
    target: Annotated[str, Parameter(name="--to")],
    policy: Path = Path("policy.yaml"),
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    partial: Annotated[bool, Parameter(negative="")] = False,
    json: JsonOption = False,
) -> int:
    """Turn a batch script of one site into that of another, by the mapping of a policy file.

    The script goes to stdout, what was changed to stderr. What no row of the mapping covers is named with its line; then nothing is
    written, and the exit code is 1.

    Args:
        script: the batch script, with its #SBATCH lines.
        source: the site that it was written for.
        target: the site that it is to run at.
        policy: the policy file with the mapping.
        output: write the script into this file instead.
        partial: write it all the same, with what is not covered left as it is.
    """
    from bridgehead.app.site_scripts import load_site_map, mapped_script

    found = mapped_script(script, load_site_map(policy), source=SiteId(source), target=SiteId(target))
    writes = partial or not found.uncovered
    if writes and output is not None:
        from bridgehead.app.whole_file import refuse_other, whole_file

        refuse_other(output, what="job script", begins=(b"#!",))
        with whole_file(output, what="job script") as stream:
            stream.write(found.text.encode())
    if json:
        print(msgspec.json.encode(_document(found, written=writes)).decode())
    else:
        if writes and output is None:
            sys.stdout.write(found.text)
        _say(found, written=writes)
    return ExitCode.NEGATIVE if found.uncovered else ExitCode.DONE


def _document(found: Mapped, *, written: bool) -> dict[str, object]:
    return {
        "script": found.text if written else None,
        "changes": found.changes,
        "uncovered": found.uncovered,
        "kept": [{"line": line, "word": word, "rule": rule} for line, word, rule in found.kept],
        "notes": [{"line": line, "text": text} for line, text in found.notes],
    }


def _say(found: Mapped, *, written: bool) -> None:
    lines = []
    for one in found.changes:
        after = f"-> {one.after}" if one.after else "left out"
        way = "" if one.returns or not one.after else f"; mapped back it would not be '{one.before}'"
        lines.append(f"{found.file}:{one.line}: {one.kind.noun} {one.before} {after}  ({one.rule}{way})")
    lines += [f"{found.file}:{line}: {text}" for line, text in found.notes]
    if found.uncovered:
        lines.append(f"not covered by the mapping, {len(found.uncovered)}:")
        lines += [f"  {one}" for one in found.uncovered]
        lines.append(
            "Add rows for them, or name under 'same' what is the same at both sites. " + ("" if written else "Nothing was written.")
        )
    print("\n".join(lines) or "nothing differs", file=sys.stderr)


def preflight(
    recovery: Path,
    /,
    *,
    workload: list[str],
    target: Annotated[str | None, Parameter(name="--to")] = None,
    estate: Path = Path("estate.yaml"),
    captured: Path | None = None,
    all: Annotated[bool, Parameter(name="--all", negative="")] = False,
    json: JsonOption = False,
) -> int:
    """Prove that everything a workload needs is at its other site, and name what is missing. Changes nothing.

    Looked at: what the job asks of Slurm, GPUs, driver and NCCL, paths, data by manifest, images by digest, modules, endpoints, variables.

    Exit code 0 when all is there, 1 when something is missing, 3 when something could not be seen.

    Args:
        recovery: the recovery file.
        workload: which; may be repeated.
        target: the site that is looked at; default its refuge.
        estate: the estate file that says how sites are reached.
        captured: a folder with what Slurm's commands said at that site, when it cannot be asked.
        all: print also what is right.
    """
    from bridgehead.app.estate_files import load_estate
    from bridgehead.app.site_preflight.judging import SitePreflight
    from bridgehead.app.site_preflight.needs import needs_of, read_files
    from bridgehead.assess.verdict import verdict
    from bridgehead.kernel.ids import WorkloadId
    from bridgehead.model.finding import Verdict

    found_estate = load_estate(estate)
    files = read_files(recovery, found_estate)
    findings: list[Finding] = []
    for name in workload:
        needs = needs_of(files, WorkloadId(name), target=None if target is None else SiteId(target))
        looker = SitePreflight(found_estate.connections(), captured={needs.target: captured} if captured is not None else {})
        findings += looker.judge(needs)
    decided = verdict(findings)
    if json:
        print(msgspec.json.encode({"verdict": decided, "workloads": workload, "findings": findings}).decode())
    else:
        from bridgehead.cli.recover_map_display import print_findings

        print_findings(findings, decided, all_of_them=all)
    return {Verdict.GO: ExitCode.DONE, Verdict.NO_GO: ExitCode.NEGATIVE, Verdict.CANNOT_TELL: ExitCode.CANNOT_TELL}[decided]
