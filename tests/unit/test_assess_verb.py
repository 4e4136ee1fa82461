"""bridgehead assess: exit codes, JSON, places of inputs, what-if, faults of input (M5.3)."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from bridgehead.app.estate_files import load_estate
from bridgehead.app.what_if import changed
from bridgehead.cli.main import call
from bridgehead.model.estatefile import read_estate

ROOT = Path(__file__).parents[2]
ESTATE, POLICY = str(ROOT / "examples" / "estate.yaml"), str(ROOT / "examples" / "policy.yaml")
VERDICTS = {"go": 0, "no-go": 1, "cannot-tell": 3}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = call(["assess", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_json_holds_the_contract_and_says_where_each_input_stands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, ESTATE, "--policy", POLICY, "--json")
    found = json.loads(out)
    assert code == VERDICTS[found["verdict"]]
    assert found["findings"]
    for one in found["findings"]:
        assert {"code", "subject", "status", "value", "limit", "margin", "unit", "formula", "inputs", "requirement"} <= set(one)
        assert one["status"] in ("pass", "fail", "unknown")
        assert one["requirement"], one["code"]
        assert one["formula"], one["code"]
        assert one["status"] != "fail" or one["remedy"], one["code"]
        assert one["status"] != "unknown" or one["measurement"], one["code"]
    settled = {entry for need in found["measurements_needed"] for entry in need["settles"]}
    assert settled == {f"{one['code']} {one['subject']}" for one in found["findings"] if one["status"] == "unknown"}
    placed = [given for one in found["findings"] for given in one["inputs"] if "line" in given]
    assert placed
    lines = {path: Path(path).read_text(encoding="utf-8").splitlines() for path in (ESTATE, POLICY)}
    for given in placed:
        key = given["source"].partition(".*")[0].rpartition(".")[2]
        shown = lines[given["file"]][given["line"] - 2 : given["line"]]  # a mapping begins with its first entry, below its key
        assert any(key in line for line in shown), given


def test_people_see_the_verdict_first_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, ESTATE, "--policy", POLICY)
    assert out.startswith({0: "GO", 1: "NO-GO", 3: "CANNOT TELL"}[code])
    assert "What would settle it" in out
    _, risks, _ = run(capsys, ESTATE, "--policy", POLICY, "--risks")
    assert "power-instability" in risks
    _, calendar, _ = run(capsys, ESTATE, "--policy", POLICY, "--calendar")
    assert "90 to 75 days before the move" in calendar


def test_what_if_changes_one_value_and_not_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(ESTATE).read_bytes()
    code, out, _ = run(capsys, ESTATE, "--policy", POLICY, "--what-if", "sites.site-a.racks.r1.max_weight=100 kg", "--json")
    found = json.loads(out)
    assert code == VERDICTS[found["verdict"]] == 1
    heavy = [one for one in found["findings"] if one["code"] == "SPACE-WEIGHT" and one["subject"] == "site-a/rack:r1"]
    assert [one["status"] for one in heavy] == ["fail"]
    assert [
        one["status"] for one in found["before"]["findings"] if one["code"] == "SPACE-WEIGHT" and one["subject"] == "site-a/rack:r1"
    ] != ["fail"]
    _, text, _ = run(capsys, ESTATE, "--policy", POLICY, "--what-if", "sites.site-a.racks.r1.max_weight=100 kg")
    assert "SPACE-WEIGHT site-a/rack:r1" in text
    assert Path(ESTATE).read_bytes() == before


def test_what_if_with_a_pattern_changes_all_things_that_it_matches() -> None:
    given = load_estate(Path(ESTATE))
    powers = [node.power_w for node in changed(given, None, "sites.*.nodes.gpu-*.power=9 kW")[0].sites[0].nodes]
    assert powers == [9000.0, 9000.0]
    other = changed(given, None, "sites.site-?.circuits.a*.continuous=")[0]
    assert [[one.continuous for one in site.circuits] for site in other.sites] == [[None, 1.0], [None, 0.8]]
    assert [link.rate_bps for link in changed(given, None, "links.*.rate=1 Gbps")[0].links] == [1e9, 1e9]
    assert [link.id for link in changed(given, None, "links.n*=")[0].links] == ["south"], "an empty value takes it away"


def test_what_if_with_a_pattern_in_names_with_dots() -> None:
    nodes = "{g1.hall.example: {gpus: 0, weight: 1 kg}, g2.hall.example: {gpus: 0, weight: 1 kg}, h1: {gpus: 0}}"
    given = read_estate(f"estate: x\nsites: {{a: {{nodes: {nodes}}}}}\n", file="x")
    for pattern in ("g*", "g?.hall.example", "g[12].*"):
        found = changed(given, None, f"sites.a.nodes.{pattern}.weight=2 kg")[0]
        assert [node.weight_kg for node in found.sites[0].nodes] == [2.0, 2.0, None], pattern


@pytest.mark.parametrize(
    ("assumption", "said"),
    [
        ("sites.site-a.rcks.r1.max_weight=1 t", "did you mean 'racks'"),
        ("sites.site-a.racks.r1.max_weight=5 V", "max_weight"),
        ("sites.site-a.racks.r1.max_weight", "PATH=VALUE"),
        ("policy.margin=2 kg", "margin"),
        ("sites.site-a.nodes.gqu*.power=9 kW", "'gqu*' matches nothing in sites.site-a.nodes, which has gpu-1, gpu-2"),
        ("sites.*.nodes.gpu*.power=9 kg", "sites.site-a.nodes.gpu-1.power and 1 more: "),
        (
            "sites.*.nodes.gpu-?.nicks.mlx5_0.active=false",
            "nothing that '*.nodes.gpu-?.nicks.mlx5_0.active' matches in sites has such a value",
        ),
        ("sites.site-a.nodes.*.pwer=9 kW", "pwer"),
        ("sites.site-c*.nodes.*.power=9 kW", "'site-c*' matches nothing in sites"),
        ("sites.site-a.racks.r1.max_weight=[", "cannot be read"),
    ],
)
def test_assumption_that_does_not_fit_is_refused(capsys: pytest.CaptureFixture[str], assumption: str, said: str) -> None:
    code, _, err = run(capsys, ESTATE, "--policy", POLICY, "--what-if", assumption)
    assert code == 2
    assert said in err
    assert "could not assume" in err
    assert ":1:" not in err, "no line of a file that nobody wrote"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--target", "site-c"), "there is no site 'site-c'"),
        (("--source", "site-b", "--target", "site-b"), "both 'site-b'"),
        (("--policy", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_ends_that_are_not_there_are_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    code, _, err = run(capsys, ESTATE, *words)
    assert code == 2
    assert said in err


def test_policy_of_another_estate_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("policy: other\nsource: a\ntarget: site-z\n", encoding="utf-8")
    (tmp_path / "e.yaml").write_text(CANNOT_TELL, encoding="utf-8")
    code, _, err = run(capsys, str(tmp_path / "e.yaml"), "--policy", str(policy))
    assert code == 2
    assert "there is no site 'site-z'" in err
    assert "policy 'other' names it" in err


def test_work_at_one_of_two_sites_says_which_one_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, ESTATE, "--json")
    assert (json.loads(out)["source"], json.loads(out)["target"]) == ("site-a", "site-b")
    _, out, _ = run(capsys, ESTATE, "--target", "site-b", "--json")
    assert json.loads(out)["target"] == "site-b"


def test_page_overwrites_a_page_and_nothing_else(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    estate, page = tmp_path / "estate.yaml", tmp_path / "page.html"
    estate.write_bytes(Path(ESTATE).read_bytes())
    code, _, err = run(capsys, str(estate), "--html", str(estate))
    assert (code, estate.read_bytes()) == (2, Path(ESTATE).read_bytes())
    assert "which is no report" in err
    for _ in range(2):
        assert run(capsys, str(estate), "--html", str(page))[0] in VERDICTS.values()
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


CANNOT_TELL = """
estate: e
sites:
  a:
    power: 1 MW
    nodes:
      n1: {gpus: 8, gpu_model: H100, power: 9 kW, nameplate: 8 kW}
  b: {power: 1 MW}
"""


def test_what_binds_decides_the_verdict(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(CANNOT_TELL, encoding="utf-8")
    page = tmp_path / "page.html"
    code, out, _ = run(capsys, str(tmp_path / "e.yaml"), "--target", "a", "--html", str(page))
    assert (code, "PWR-PLATE" in out) == (3, True), "a warning fails, and does not decide"
    binding = out.partition("Binding: ")[2].split()[0]
    assert binding not in ("", "PWR-PLATE")
    _, text, _ = run(capsys, str(tmp_path / "e.yaml"), "--target", "a", "--json")
    found = json.loads(text)["findings"]
    at = next(index for index, one in enumerate(found) if (one["status"], one["severity"]) == ("unknown", "blocking"))
    assert found[at]["code"] == binding
    text = page.read_text(encoding="utf-8")
    assert f'href="#finding-{at}">Evidence' in text
    family = text[text.index('<details class="family"') : text.index(f'id="finding-{at}"')]
    assert (family.count('class="family"'), 'class="family" open="open"' in family) == (1, True), "what binds is in the first family"


@pytest.mark.parametrize("words", [["assess", ESTATE], ["estate", "show", ESTATE]])
def test_reader_that_leaves_gets_no_verdict(words: list[str]) -> None:
    program = Path(sysconfig.get_path("scripts")) / "bridgehead"
    with subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TERM": "dumb"}) as gone:
        assert gone.stdout is not None
        assert gone.stderr is not None
        gone.stdout.close()
        assert gone.stderr.read() == b""
        assert gone.wait(timeout=60) == 141, "1 would say no-go"
