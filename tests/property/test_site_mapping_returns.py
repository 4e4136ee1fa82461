"""A mapping that is one to one takes a script there and back unchanged; no text whatever makes it fail (issue 6)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kernel.ids import SiteId
from bridgehead.model.site_map import DatasetPlaces, ImagePlaces, SiteMap
from bridgehead.recovery.shell_words import shell_words
from bridgehead.recovery.site_mapping import map_script

A, B = SiteId("a"), SiteId("b")
NAMES = st.from_regex(r"[a-z][a-z0-9_]{2,8}", fullmatch=True)
SHELLISH = st.text(alphabet="ab/$\"'`\\ \n#<>|;&(){}=:,@.-*1E", max_size=200)


@st.composite
def pairs(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Three words at each site, all different, in different orders: some words are those of both."""
    words = draw(st.lists(NAMES, min_size=3, max_size=3, unique=True))
    there = draw(st.permutations(words)) if draw(st.booleans()) else [f"{word}_b" for word in words]
    return list(zip(words, there, strict=True))


def table(rows: list[tuple[str, str]], form: str = "{}") -> dict[str, dict[SiteId, str]]:
    return {f"r{number}": {A: form.format(a), B: form.format(b)} for number, (a, b) in enumerate(rows)}


@given(pairs(), pairs(), pairs(), pairs(), pairs(), st.lists(st.sampled_from(range(3)), min_size=12, max_size=12))
def test_there_and_back_is_where_it_was(
    parts: list[tuple[str, str]],
    folders: list[tuple[str, str]],
    gpus: list[tuple[str, str]],
    modules: list[tuple[str, str]],
    hosts: list[tuple[str, str]],
    picks: list[int],
) -> None:
    digest = "@sha256:" + "ab" * 32
    mapping = SiteMap(
        partitions=table(parts),
        accounts=table(parts, "acc-{}"),
        paths=table(folders, "/{}/data"),
        gres=table(gpus, "gpu:{}"),
        modules=table(modules, "{}/1.2"),
        endpoints=table(hosts, "{}.example:9000"),
        environment={"NCCL_SOCKET_IFNAME": {A: folders[0][0], B: folders[0][1]}},
        images=tuple(
            ImagePlaces(f"i{n}", {A: f"{a}.io/x{digest}", B: f"{b}.io/x{digest}"}) for n, (a, b) in enumerate(hosts)
        ),
        datasets=tuple(DatasetPlaces(f"d{n}", {A: f"/{a}/sets", B: f"/{b}/sets"}) for n, (a, b) in enumerate(folders)),
    )  # fmt: skip
    word = [pair[pick][0] for pair, pick in zip([parts, parts, gpus, modules, folders, folders, hosts, hosts], picks, strict=False)]
    script = (
        f"#!/bin/bash\n#SBATCH -p {word[0]} --account=acc-{word[1]}\n#SBATCH --gres=gpu:{word[2]}:8\n"
        f"module load {word[3]}/1.2\nexport NCCL_SOCKET_IFNAME={folders[0][0]}\n"
        f'srun --container-image={word[6]}.io/x{digest} run --data=/{word[4]}/data/x:/{word[5]}/sets "http://{word[7]}.example:9000/b"\n'
    )
    there = map_script(script, mapping, source=A, target=B, file="job.sh")
    assert there.uncovered == ()
    assert all(change.returns for change in there.changes)
    back = map_script(there.text, mapping, source=B, target=A, file="job.sh")
    assert back.text == script


@given(SHELLISH)
def test_no_text_makes_it_fail_and_without_rules_nothing_changes(text: str) -> None:
    tokens = shell_words(text)
    assert all(text[one.start : one.end] == one.text for one in tokens)
    found = map_script(text, SiteMap(), source=A, target=B, file="job.sh")
    assert found.text == text
    assert map_script(text, SiteMap(), source=A, target=A, file="job.sh").uncovered == ()
