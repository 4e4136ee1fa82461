"""``bridgehead discover`` as a process: its contract, stability, drift, sites, and that no half file is left (M2, M5.1; issue 4)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest

from bridgehead.app.discover import discover
from bridgehead.app.estate_files import load_estate
from bridgehead.app.evidence import views_of, write_facts
from bridgehead.app.parsers import parsers
from bridgehead.testing.captures import Cluster, write

PROGRAM = Path(sysconfig.get_path("scripts")) / "bridgehead"
KEYS = ("subject", "attribute", "value", "unit", "status", "tool", "file", "line")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of three hosts; never written to."""
    folder = tmp_path_factory.mktemp("made") / "captures"
    write(folder, Cluster(3))
    return folder


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"}
    command = [PROGRAM, "discover", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=120, check=False)


def facts_of(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    *lines, last = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return lines, last["summary"]


def test_contract_of_the_facts_file(made: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.bin").write_bytes(bytes(range(256)))
    done = run(made, tmp_path / "odd.bin", "-o", tmp_path / "estate.yaml", "--facts", tmp_path / "facts.jsonl")
    assert done.returncode == 0, done.stderr
    lines, summary = facts_of(tmp_path / "facts.jsonl")
    assert all(tuple(line)[: len(KEYS)] == KEYS for line in lines)
    assert {line["status"] for line in lines} <= {"known", "unknown", "conflict"}
    assert all((line["value"] is None) == (line["status"] == "unknown") for line in lines)
    assert all(line["note"] for line in lines if line["status"] != "known")
    assert summary["facts"] == sum(summary["by_status"].values()) == len({(line["subject"], line["attribute"]) for line in lines})
    assert summary["files_read"] == sum(1 for path in made.rglob("*") if path.is_file()) + 1
    assert [one["file"] for one in summary["skipped"] if "no parser recognises it" in one["reason"]] == [str(tmp_path / "odd.bin")]
    by_name = {(line["subject"], line["attribute"]): line["value"] for line in lines}
    assert by_name["node:gpu00002", "gpu-count"] == 8
    assert by_name["node:gpu00003/gpu:7", "model"] == "NVIDIA H100 80GB HBM3"
    fact = next(line for line in lines if (line["subject"], line["attribute"]) == ("node:gpu00001/gpu:0", "vbios-version"))
    stands = Path(fact["file"]).read_text(encoding="utf-8").splitlines()[fact["line"] - 1]
    assert str(fact["value"]) in stands, "the line that is named says it"


def test_estate_holds_what_is_proved(made: Path, tmp_path: Path) -> None:
    done = run(made, "-o", tmp_path / "estate.yaml")
    assert done.returncode == 0, done.stderr
    [site] = load_estate(tmp_path / "estate.yaml").sites
    assert (site.id, [node.id for node in site.nodes]) == ("site-a", ["gpu00001", "gpu00002", "gpu00003"])
    node = site.nodes[1]
    assert (node.gpus, node.gpu_model, node.rack, node.position) == (8, "NVIDIA H100 80GB HBM3", "R0001", 11)
    assert [nic.rate_bps for nic in node.nics] == [400e9] * 8
    assert node.memory_bytes is not None
    assert [rack.id for rack in site.racks] == ["R0001"]
    assert node.power_w is None, "no tool proves the largest power"
    assert "lacking" in done.stdout
    assert "# - " in (tmp_path / "estate.yaml").read_text(encoding="utf-8")


def test_json_says_the_same_as_the_facts_file(made: Path, tmp_path: Path) -> None:
    done = run(made, "--json", "--facts", tmp_path / "facts.jsonl", "-o", tmp_path / "estate.yaml")
    document = json.loads(done.stdout)
    lines, summary = facts_of(tmp_path / "facts.jsonl")
    assert (document["facts"], document["summary"]) == (lines, summary)
    assert document["estate"]["written"] is True
    assert document["estate"]["lacks"]
    assert json.loads(run(made, "--json").stdout)["facts"] == lines


def test_one_file_of_unknown_name(made: Path, tmp_path: Path) -> None:
    shutil.copy(made / "gpu00002" / "nvidia-smi-q.xml", tmp_path / "x")
    done = run(tmp_path / "x", "--facts", tmp_path / "facts.jsonl", "--host", "gpu00002")
    assert "1 file recognised of 1" in done.stdout
    assert facts_of(tmp_path / "facts.jsonl")[0][0]["subject"] == "node:gpu00002"
    nobody = json.loads(run(tmp_path / "x", "--json").stdout)
    assert nobody["facts"][0]["subject"] == "node:?"


def test_other_order_and_other_numbers_of_processes_change_nothing(made: Path, tmp_path: Path) -> None:
    paths = sorted(path for path in made.rglob("*") if path.is_file())
    written = []
    for name, given, jobs in (("a", [made], 1), ("b", paths[::-1], 1), ("c", paths[1::2] + paths[::2], 2)):
        assert run(*given, "--facts", f"{name}.jsonl", "--jobs", str(jobs), "--host", "h", cwd=tmp_path).returncode == 0
        written.append((tmp_path / f"{name}.jsonl").read_bytes())
    in_folders = run(made, "--facts", "d.jsonl", "--jobs", "2", cwd=tmp_path)
    assert in_folders.returncode == 0
    assert written[1] == written[2]
    assert written[0] == (tmp_path / "d.jsonl").read_bytes()


def test_processes_and_one_process_merge_alike(made: Path, tmp_path: Path) -> None:
    for jobs in (1, 2):
        write_facts(discover({"": [made]}, jobs=jobs), tmp_path / f"{jobs}.jsonl")
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()
    found = discover({"": [made]}, jobs=1)
    subjects = [view.subject for _, views in views_of(found) for view in views]
    assert subjects.index("node:gpu00001/gpu:0") < subjects.index("node:gpu00001/gpu:7") < subjects.index("node:gpu00003")


def test_another_run_shows_drift_and_overwrites_only_with_force(made: Path, tmp_path: Path) -> None:
    captures, estate = tmp_path / "captures", tmp_path / "estate.yaml"
    shutil.copytree(made, captures)
    assert run(captures, "-o", estate).returncode == 0
    before = estate.read_bytes()
    assert f"{estate} says the same" in run(captures, "-o", estate).stdout
    path = captures / "gpu00002" / "nvidia-smi-q.xml"
    path.write_text(path.read_text().replace("550.90.07", "560.35.03"))
    done = run(captures, "-o", estate)
    assert done.returncode == 0
    assert "550.90.07" in done.stdout
    assert "560.35.03" in done.stdout
    assert "left as it is" in done.stderr
    assert estate.read_bytes() == before
    assert f"{estate} is written" in run(captures, "-o", estate, "--force").stdout
    assert estate.read_bytes() != before


def test_conflicts_are_shown_with_all_who_say_it(made: Path, tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    shutil.copytree(made / "gpu00001", captures / "gpu00001")
    text = (captures / "gpu00001" / "nvidia-smi-q.xml").read_text().replace("<serial>160000000", "<serial>990000000")
    (captures / "gpu00001" / "later.xml").write_text(text)
    done = run(captures, "--json")
    one = [line for line in json.loads(done.stdout)["facts"] if line["subject"].endswith("gpu:0") and line["attribute"] == "serial"]
    assert [line["status"] for line in one] == ["conflict", "conflict"]
    assert all("later.xml" in line["note"] and "nvidia-smi-q.xml" in line["note"] for line in one)
    assert "CONFLICT node:gpu00001/gpu:0 serial" in run(captures).stdout


def test_sites_by_name_are_kept_apart(made: Path, tmp_path: Path) -> None:
    """Two halls may have hosts of the same name."""
    other = tmp_path / "other"
    write(other, Cluster(2))
    done = run("--site", f"old={made}", "--site", f"new={other}", "-o", tmp_path / "estate.yaml", "--facts", tmp_path / "facts.jsonl")
    assert done.returncode == 0, done.stderr
    sites = {site.id: [node.id for node in site.nodes] for site in load_estate(tmp_path / "estate.yaml").sites}
    assert sites == {"new": ["gpu00001", "gpu00002"], "old": ["gpu00001", "gpu00002", "gpu00003"]}
    lines, _ = facts_of(tmp_path / "facts.jsonl")
    assert {line["site"] for line in lines} == {"old", "new"}
    assert not [line for line in lines if line["status"] == "conflict"], "they are other hosts"


def test_site_of_paths_that_stand_alone(made: Path, tmp_path: Path) -> None:
    assert run(made, "--site", "oslo", "-o", tmp_path / "estate.yaml").returncode == 0
    assert [site.id for site in load_estate(tmp_path / "estate.yaml").sites] == ["oslo"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "PATH must be given"),
        (("--site", "a"), "PATH must be given"),
        (("--site", "a", "--site", "b", "x"), "names no path"),
        (("--site", "=x"), "a name and a path must be given"),
        (("--site", "a="), "a name and a path must be given"),
        (("nowhere",), "nowhere"),
        (("--site", "a=nowhere"), "nowhere"),
        (("--jobs", "0", "x"), "jobs"),
    ],
)
def test_wrong_use_is_named(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = run(*arguments, "-o", "estate.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_nothing_recognised_writes_no_estate_and_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("nothing that a tool says\n")
    (tmp_path / "empty").write_text("")
    done = run("a.txt", "empty", "-o", "estate.yaml", "--facts", "facts.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert "it is empty" in done.stdout
    assert not (tmp_path / "estate.yaml").exists()
    assert facts_of(tmp_path / "facts.jsonl")[1]["files_recognised"] == 0


def test_a_file_that_is_no_estate_is_never_overwritten(made: Path, tmp_path: Path) -> None:
    (tmp_path / "estate.yaml").write_text("somebody: else\n")
    done = run(made, "-o", "estate.yaml", "--force", cwd=tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "estate.yaml").read_text() == "somebody: else\n"


def test_list_names_every_tool_and_what_it_yields() -> None:
    listed = json.loads(run("--list", "--json").stdout)
    assert [one["tool"] for one in listed] == [parser.tool for parser in parsers()]
    assert all(one["yields"] and {"subject", "attribute", "unit", "meaning"} == set(one["yields"][0]) for one in listed)
    text = run("--list").stdout
    assert all(f"{parser.tool}: {parser.command}" in text for parser in parsers())


def test_killed_in_the_middle_leaves_no_half_file_and_no_process(made: Path, tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    for number in range(40):
        shutil.copytree(made / "gpu00001", captures / f"n{number}")
    facts = tmp_path / "facts.jsonl"
    old = '{"summary":{"facts":0}}\n'
    facts.write_text(old)
    command = [PROGRAM, "discover", captures, "--facts", facts, "-o", tmp_path / "estate.yaml", "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline_s = time.monotonic() + 60
        while not any(path.name.endswith(".new") for path in tmp_path.iterdir()):
            assert process.poll() is None, "it was too quick to be killed in the middle"
            assert time.monotonic() < deadline_s
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert facts.read_text() == old
    assert not (tmp_path / "estate.yaml").exists()
    deadline_s = time.monotonic() + 30
    while True:  # the others notice that their parent is gone
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        assert time.monotonic() < deadline_s, "other processes live on"
        time.sleep(0.05)


def test_nothing_recognised_is_told_and_no_estate_is_written(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    done = run(tmp_path / "none", "-o", tmp_path / "estate.yaml")
    assert done.returncode == 1
    assert "no file could be read there" in done.stderr
    assert "estate.yaml is not written" in done.stderr
    (tmp_path / "none" / "odd.bin").write_bytes(bytes(range(256)))
    done = run(tmp_path / "none")
    assert (done.returncode, "--list" in done.stderr) == (1, True)


def test_what_is_written_takes_the_place_of_nothing_else(made: Path, tmp_path: Path) -> None:
    capture = tmp_path / "gpu00001" / "topo.txt"
    capture.parent.mkdir()
    shutil.copy(made / "gpu00001" / "nvidia-smi-topo.txt", capture)
    before = capture.read_bytes()
    done = run(capture.parent, "--facts", capture)
    assert (done.returncode, capture.read_bytes()) == (2, before)
    assert "another file is there, which is no facts file" in done.stderr
    done = run(capture.parent, "--facts", tmp_path / "one", "-o", tmp_path / "one")
    assert (done.returncode, (tmp_path / "one").exists()) == (2, False)
    os.mkfifo(tmp_path / "pipe")
    for option in ("--facts", "-o"):
        done = run(capture.parent, option, tmp_path / "pipe")
        assert (done.returncode, (tmp_path / "pipe").is_fifo()) == (2, True)
    (tmp_path / "facts.jsonl").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "facts.jsonl")
    for _ in range(2):
        assert run(capture.parent, "--facts", tmp_path / "link").returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert facts_of(tmp_path / "facts.jsonl")[1]["files_recognised"] == 1
    done = run(capture.parent, "--facts", tmp_path / "missing" / "facts.jsonl")
    assert done.returncode == 2
    assert f"{tmp_path / 'missing' / 'facts.jsonl'}\n" in done.stderr, "the name that was given, not that of a file in the making"


def test_conflicts_of_captures_without_a_host_are_counted_apart(tmp_path: Path) -> None:
    for host, version in (("before", "550.90"), ("after", "535.54")):
        path = tmp_path / "made" / host / "smi.csv"
        path.parent.mkdir(parents=True)
        path.write_text(f"index, name, driver_version\n0, NVIDIA L4, {version}\n", encoding="utf-8")
    done = run(tmp_path / "made", "-o", tmp_path / "estate.yaml")
    assert done.returncode == 0, done.stderr
    assert "CONFLICT" not in done.stdout
    assert "whose host nobody says: of several hosts, perhaps" in done.stdout
    assert "a folder per host, `hostname` in it, or --host" in done.stdout


def test_host_that_names_nothing_is_told(tmp_path: Path) -> None:
    capture = tmp_path / "tr2" / "smi.csv"
    capture.parent.mkdir()
    capture.write_text("index, name, driver_version\n0, NVIDIA L4, 550.90\n", encoding="utf-8")
    done = run(capture.parent, "--host", "gpu01")
    assert (done.returncode, "--host gpu01 names no capture here" in done.stderr) == (0, True), "the folder looks like a host's"
    done = run(capture, "--host", "gpu01")
    assert (done.returncode, done.stderr) == (0, "")
    done = run(capture, "--host", "my host!")
    assert (done.returncode, "is no name of a host" in done.stderr) == (2, True)
