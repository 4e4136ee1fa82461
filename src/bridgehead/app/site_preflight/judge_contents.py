"""Judges what lies at a site: paths, data sets by manifest, images by digest, modules, endpoints, variables, devices (M9.1, P13)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bridgehead.app.site_preflight import checks
from bridgehead.app.site_preflight.judge_slurm import case_of
from bridgehead.app.site_preflight.manifests import Manifest, manifest_in_vault, read_manifest
from bridgehead.app.site_preflight.place import LOOK_S, Place
from bridgehead.kernel.errors import BridgeheadError, PortError
from bridgehead.model.finding import Finding
from bridgehead.model.site_map import IN_VAULT, Kind
from bridgehead.model.site_needs import DataNeed, ImageNeed, Need, SiteNeeds
from bridgehead.recovery.script_references import Use
from bridgehead.recovery.script_words import literal
from bridgehead.vault import Vault

_PORTS: Final = {"http": 80, "https": 443, "postgres": 5432, "postgresql": 5432, "redis": 6379, "mysql": 3306, "nfs": 2049, "ssh": 22}
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
_AVAILABLE: Final = (
    'type module >/dev/null 2>&1 || exit 97; for one in "$@"; do '
    'module -t avail "$one" 2>&1 | sed -e "s/[(].*//" -e "s/[[:space:]]*$//" | grep -qxF -e "$one" && echo "yes $one" || echo "no $one"; '
    "done"
)


def judge_paths(needs: SiteNeeds, place: Place) -> Iterator[Finding]:
    """Each path, as its user there sees it."""
    asked = needs.words(Kind.PATH)
    looks = [{"look": "path", "path": _looked(one)[0], "use": one.use} for one in asked]
    answers = place.look(looks, how=needs.look) if looks else []
    for need, answer in zip(asked, answers, strict=True):
        case = case_of(checks.PATH, needs, f"path:{need.word}", need.where)
        place_of_it = need.word if need.use == Use.READ else answer.get("looked", need.word)
        if "error" in answer:
            yield case.unknown(f"nobody could look: {answer['error']}", measurement=f"look for {need.word} at the site")
        elif not answer["is"]:
            text = f"{need.word} is not there" if need.use == Use.READ else f"there is no folder {place_of_it} for {need.word}"
            yield case.holds(False, text, remedy="bring it there, or correct the row of paths")
        elif need.use == Use.READ and not answer["readable"]:
            yield case.holds(False, f"{need.word} is there, and cannot be read", remedy="let the user read it")
        elif need.use != Use.READ and not answer["writable"]:
            yield case.holds(False, f"{place_of_it} cannot be written to", remedy="let the user write there")
        elif need.use == Use.READ and not _looked(need)[1]:
            text = f"{answer['looked']} is there; what {need.word} is becomes known only when it runs"
            yield case.unknown(text, measurement=f"look for {need.word} at the site")
        else:
            yield case.holds(True, f"{place_of_it} is there", remedy="")


def _looked(need: Need) -> tuple[str, bool]:
    """What can be looked for, and whether that is all of it: $HOME, $USER and patterns are; other variables end what is known."""
    word = re.sub(r"\$\{?(HOME|USER)\}?", r"$\1", need.word)
    if need.use == Use.READ and not re.search(r"\$(?!HOME|USER)|[{}%\\]", word):
        return word, True
    known = word.replace("$HOME", "\0H").replace("$USER", "\0U")
    folder = literal(known).replace("\0H", "$HOME").replace("\0U", "$USER")
    return (folder if need.use == Use.READ or folder == word else folder.rstrip("/") + "/x"), False


def judge_datasets(needs: SiteNeeds, place: Place, *, vault: Callable[[], Vault]) -> Iterator[Finding]:
    """Every file of every data set, by its hash. ``vault``: opens that of the site."""
    for one in needs.datasets:
        case = case_of(checks.DATA, needs, f"dataset:{one.id}")
        if not one.place:
            yield case.holds(False, f"the mapping does not say where {one.id} is at {needs.target}", remedy="add it under datasets")
            continue
        if not one.manifest:
            yield case.unknown(f"{one.id} has no manifest", measurement=f"sha256sum of each file of {one.id}, at its source")
            continue
        try:
            if one.manifest == IN_VAULT:
                manifest = manifest_in_vault(vault(), needs.workload)
            else:
                manifest = read_manifest(Path(one.manifest), expected=one.manifest_hash)
        except BridgeheadError as error:
            text = f"its manifest ({one.manifest}): {error.happened}"
            yield case.unknown(text, measurement=error.remedy or "make the manifest again, at the source")
            continue
        yield from _dataset(needs, one, manifest, place)


def _dataset(needs: SiteNeeds, one: DataNeed, manifest: Manifest, place: Place) -> Iterator[Finding]:
    case, beside = case_of(checks.DATA, needs, f"dataset:{one.id}"), case_of(checks.EXTRA, needs, f"dataset:{one.id}")
    look = {"look": "data", "root": one.place, "files": manifest.files, "hash": manifest.algorithm}
    (answer,) = place.look([look], how=needs.look, timeout_s=one.limit_s)
    if "error" in answer:
        why = f"it could not be read: {answer['error']}"
        yield case.unknown(why, measurement=f"compare {one.place} with {one.manifest} at the site")
        return
    if "counts" not in answer:
        yield case.holds(False, f"{one.place}: {answer['why']}", remedy=f"bring {one.id} there")
        return
    counts = answer["counts"]
    wrong = [
        f"{counts[key]} {word} ({', '.join(answer[key])})" for key, word in (("missing", "missing"), ("wrong", "different")) if counts[key]
    ]
    text = f"{len(manifest.files)} files, {answer['bytes']} bytes, " + (", ".join(wrong) or "all right")
    yield case.holds(answer["is"], text, remedy=f"bring {one.id} there again; nothing is right before its hashes are")
    extra = f"{counts['extra']} files beside those of the manifest" + (f" ({', '.join(answer['extra'])})" if answer["extra"] else "")
    yield beside.holds(not counts["extra"], extra, remedy="remove them, or put them into the manifest: jobs may read them")


def judge_images(needs: SiteNeeds, place: Place) -> tuple[list[Finding], dict[str, dict[str, str]]]:
    """Each image by its digest; and what each says of CUDA and NCCL, by its word."""
    found: list[Finding] = []
    said: dict[str, dict[str, str]] = {}
    for one in needs.images:
        case = case_of(checks.IMAGE, needs, f"image:{one.word}", one.where)
        if not one.digest:
            found.append(case.holds(False, f"nobody gave the digest of {one.word}", remedy="add it under images"))
            continue
        (answer,) = place.look([_image_look(one, needs)], how=needs.look, timeout_s=LOOK_S * 5)
        if "error" in answer:
            found.append(case.unknown(f"nobody could look: {answer['error']}", measurement=f"pull {one.word} at the site"))
            continue
        text = f"{one.digest[:19]} is there, whole" if answer["is"] else f"{one.digest} is not there: {answer['why']}"
        found.append(case.holds(answer["is"], text, remedy="copy the image there, with its digest"))
        said[one.word] = {key: str(answer.get(key, "")) for key in ("cuda", "nccl")}
    return found, said


def _image_look(one: ImageNeed, needs: SiteNeeds) -> dict[str, Any]:
    word = one.word.partition("@sha256:")[0]
    if word.startswith("oci:"):
        path = word.removeprefix("oci:")
        return {"look": "layout", "path": re.sub(r":[\w.-]+$", "", path), "digest": one.digest}
    if word.startswith("/"):
        return {"look": "file", "path": word, "digest": one.digest}
    name = re.sub(r"^[a-z]+://", "", word).replace("#", "/", 1)
    host, slash, repository = name.partition("/")
    if not slash or not re.search(r"[.:]|^localhost$", host):
        host, repository = "docker.io", name
    if host == "docker.io" and "/" not in repository:
        repository = f"library/{repository}"
    repository = re.sub(r":[\w.-]+$", "", repository)
    return {"look": "registry", "host": host, "repository": repository, "digest": one.digest, "plain": host in needs.look.plain_http}


def judge_modules(needs: SiteNeeds, place: Place) -> Iterator[Finding]:
    """Each module, in a login shell, on a node where that is possible."""
    asked = needs.words(Kind.MODULE)
    if not asked:
        return
    lines, why = [""], ""
    try:
        result = place.run([*needs.look.on_node, "bash", "-lc", _AVAILABLE, "bash", *(one.word for one in asked)], timeout_s=LOOK_S)
        lines = result.text.splitlines()
        why = "there is no module command in a login shell" if result.exit_code == 97 else "" if lines else result.complaint
    except PortError as error:
        why = error.happened
    for need in asked:
        case = case_of(checks.MODULE, needs, f"module:{need.word}", need.where)
        if why or not {f"yes {need.word}", f"no {need.word}"} & set(lines):
            yield case.unknown(f"nobody could look: {why or 'no answer'}", measurement=f"module avail {need.word}, at the site")
        else:
            there = f"yes {need.word}" in lines
            text = f"module {need.word} is {'' if there else 'not '}there"
            yield case.holds(there, text, remedy="install it, or correct the row of modules")


def judge_endpoints(needs: SiteNeeds, place: Place) -> Iterator[Finding]:
    """Each endpoint, as it is reached from there."""
    asked = [(need, *_address(need.word)) for need in needs.words(Kind.ENDPOINT)]
    looks = [{"look": "endpoint", "host": host, "port": port} for _, host, port in asked if port]
    answers = iter(place.look(looks, how=needs.look) if looks else [])
    for need, host, port in asked:
        case = case_of(checks.ENDPOINT, needs, f"endpoint:{need.word}", need.where)
        answer: dict[str, Any] = next(answers) if port else {"error": "the port is not known"}
        if "error" in answer:
            yield case.unknown(f"nobody could look: {answer['error']}", measurement=f"connect to {need.word} from the site")
        else:
            text = f"{host}:{port} answers" if answer["is"] else f"{host}:{port}: {answer['why']}"
            yield case.holds(answer["is"], text, remedy="start it there, or correct the row of endpoints")


def _address(word: str) -> tuple[str, int]:
    scheme, found, rest = word.partition("://")
    authority = (rest if found else word).partition("/")[0].rpartition("@")[2]
    host, _, port = authority.partition(":")
    return host, int(port) if port.isdigit() else _PORTS.get(scheme if found else "", 0)


def judge_variables(needs: SiteNeeds, place: Place) -> Iterator[Finding]:
    """Variables that the site has to set, and devices that variables name."""
    asked = [one for one in needs.words(Kind.VARIABLE) if one.use == Use.ASKED]
    looks = [{"look": "variable", "name": one.word} for one in asked]
    for need, answer in zip(asked, place.look(looks, how=needs.look, login=True) if looks else [], strict=True):
        case = case_of(checks.VARIABLE, needs, f"variable:{need.word}", need.where)
        if "error" in answer:
            yield case.unknown(f"nobody could look: {answer['error']}", measurement=f"printenv {need.word}, at the site")
            continue
        right = bool(answer["is"]) and need.expected in ("", answer["value"])
        yield case.holds(right, _value_said(need, answer, right=right), remedy="set it there, or correct the row of environment")
    yield from _devices(needs, place)


def _value_said(need: Need, answer: dict[str, Any], *, right: bool) -> str:
    """What is said of a variable: its value only where the mapping expects one, and never of what may be a secret."""
    if not answer["is"]:
        return f"{need.word} is not set"
    if not need.expected:
        return f"{need.word} is set"
    if _SECRET.search(need.word):
        return f"{need.word} is {'what' if right else 'not what'} the mapping says"
    return f"{need.word} is '{answer['value']}'" + ("" if right else f", and the mapping says '{need.expected}'")


def _devices(needs: SiteNeeds, place: Place) -> Iterator[Finding]:
    asked: list[tuple[Need, str]] = []
    for need in needs.words(Kind.VARIABLE):
        name, _, value = need.word.partition("=")
        folder = "net" if name.endswith("IFNAME") else "infiniband" if name.endswith("_HCA") else ""
        if need.use == Use.SET and folder:
            names = [re.sub(r"^[=^]+|:\d+$", "", part) for part in value.split(",") if not part.startswith("^")]
            asked += [(need, f"/sys/class/{folder}/{one}*") for one in names]
    looks: Sequence[dict[str, Any]] = [{"look": "path", "path": path, "use": "read"} for _, path in asked]
    nowhere = {"error": "the mapping does not say how a node is reached ('on_node')"}
    answers = place.look(looks, how=needs.look, on_node=True) if looks and needs.look.on_node else [nowhere] * len(looks)
    for (need, path), answer in zip(asked, answers, strict=True):
        case = case_of(checks.DEVICE, needs, f"variable:{need.word}", need.where)
        if "error" in answer:
            text = f"nobody could look for {path} on a node: {answer['error']}"
            yield case.unknown(text, measurement=f"ls {path}, on a node there")
        else:
            yield case.holds(answer["is"], f"{path} is {'' if answer['is'] else 'not '}there", remedy="correct the row of environment")
