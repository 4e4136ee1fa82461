"""Judges what a job asks of Slurm: partitions, accounts, QoS, reservations, features; and whether Slurm itself would take it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bridgehead.app.site_preflight import checks
from bridgehead.app.site_preflight.place import Place
from bridgehead.app.site_preflight.slurm import SILENT, Cluster, Record, features_of, listed, usable
from bridgehead.assess.checking import Case, Check
from bridgehead.kernel.errors import PortError
from bridgehead.kernel.phrase import nearest
from bridgehead.model.finding import Finding, Origin
from bridgehead.model.site_map import Kind
from bridgehead.model.site_needs import Need, SiteNeeds


def judge_slurm(needs: SiteNeeds, cluster: Cluster, place: Place) -> Iterator[Finding]:
    """All of it."""
    yield from _partitions(needs, cluster)
    yield from _accounts(needs, cluster)
    yield from _qos(needs, cluster)
    yield from _reservations(needs, cluster)
    yield from _features(needs, cluster)
    if needs.script:
        yield _accepted(needs, cluster, place)


def case_of(check: Check, needs: SiteNeeds, what: str, where: str = "") -> Case:
    """A finding in the making; ``where`` becomes its state."""
    return Case(check, f"{needs.target}/{what}", state=where)


def _partitions(needs: SiteNeeds, cluster: Cluster) -> Iterator[Finding]:
    there = cluster.partitions()
    accounts = [one.word for one in needs.words(Kind.ACCOUNT)]
    for need in needs.words(Kind.PARTITION):
        case = case_of(checks.PARTITION, needs, f"partition:{need.word}", need.where)
        if there is None:
            yield case.unknown(f"nobody knows: {cluster.missing()}", measurement="scontrol -o show partition")
            continue
        case.take("partitions", ", ".join(sorted(there)), "", "scontrol show partition", origin=Origin.MEASURED)
        record = there.get(need.word)
        if record is None:
            remedy = f"correct the row of partitions: {nearest(need.word, sorted(there))}"
            yield case.holds(False, f"there is no partition '{need.word}'", remedy=remedy)
            continue
        why = _closed(record, accounts, needs.nodes)
        if not why and needs.unsized and record.get("MaxNodes", "UNLIMITED").isdigit():
            text = f"partition '{need.word}' is up, and a job may have {record['MaxNodes']} nodes there: {needs.unsized}"
            yield case.unknown(text, measurement="write --nodes into the script")
            continue
        yield case.holds(not why, why or f"partition '{need.word}' is up and open", remedy="open the partition, or name another one")


def _closed(record: Record, accounts: list[str], nodes: int) -> str:
    if record.get("State") != "UP":
        return f"its state is {record.get('State', 'not known')}"
    allowed, denied = listed(record, "AllowAccounts"), listed(record, "DenyAccounts")
    for account in accounts:
        if (allowed is not None and account not in allowed) or (denied is not None and account in denied):
            return f"it is closed for account '{account}'"
    most = record.get("MaxNodes", "UNLIMITED")
    if most.isdigit() and int(most) < nodes:
        return f"a job may have {most} nodes there, and it needs {nodes}"
    return ""


def _accounts(needs: SiteNeeds, cluster: Cluster) -> Iterator[Finding]:
    asked = needs.words(Kind.ACCOUNT)
    if not asked:
        return
    keeps, rows, user = cluster.keeps_accounts(), cluster.associations() if cluster.keeps_accounts() else [], cluster.user()
    for need in asked:
        case = case_of(checks.ACCOUNT, needs, f"account:{need.word}", need.where)
        if keeps is False:
            yield case.holds(True, "the cluster does not enforce accounts: every name is taken", remedy="")
        elif keeps is None or rows is None or user is None:
            yield case.unknown(f"nobody knows: {cluster.missing()}", measurement="sacctmgr show assoc format=cluster,account,user,qos")
        elif any(one.account == need.word and one.user == user for one in rows):
            yield case.holds(True, f"{user} may charge account '{need.word}'", remedy="")
        else:
            known = any(one.account == need.word for one in rows)
            text = f"{user} may not charge account '{need.word}'" if known else f"there is no account '{need.word}'"
            yield case.holds(False, text, remedy="let the site's administrator add the association, or correct the row of accounts")


def _qos(needs: SiteNeeds, cluster: Cluster) -> Iterator[Finding]:
    accounts = {one.word for one in needs.words(Kind.ACCOUNT)}
    for need in needs.words(Kind.QOS):
        case = case_of(checks.QOS, needs, f"qos:{need.word}", need.where)
        keeps = cluster.keeps_accounts()
        if keeps is False:
            yield case.holds(True, "the cluster does not enforce QoS: every name is taken", remedy="")
            continue
        names, rows, user = cluster.qos(), cluster.associations(), cluster.user()
        if keeps is None or names is None or rows is None or user is None:
            yield case.unknown(f"nobody knows: {cluster.missing()}", measurement="sacctmgr show qos; sacctmgr show assoc")
            continue
        mine = [one for one in rows if one.user == user and (not accounts or one.account in accounts)]
        if need.word not in names:
            yield case.holds(False, f"there is no QoS '{need.word}'", remedy=f"correct the row of qos: {nearest(need.word, sorted(names))}")
        else:
            text = f"{user} may ask for QoS '{need.word}'"
            may = any(need.word in one.qos for one in mine)
            yield case.holds(may, text if may else text.replace("may", "may not", 1), remedy="let the administrator add it")


def _reservations(needs: SiteNeeds, cluster: Cluster) -> Iterator[Finding]:
    for need in needs.words(Kind.RESERVATION):
        case = case_of(checks.RESERVATION, needs, f"reservation:{need.word}", need.where)
        there = cluster.reservations()
        if there is None:
            yield case.unknown(f"nobody knows: {cluster.missing()}", measurement="scontrol -o show reservation")
        else:
            text = f"there is {'a' if need.word in there else 'no'} reservation '{need.word}'"
            yield case.holds(need.word in there, text, remedy="make the reservation, or correct the row of reservations")


def _features(needs: SiteNeeds, cluster: Cluster) -> Iterator[Finding]:
    for need in needs.words(Kind.CONSTRAINT):
        case = case_of(checks.CONSTRAINT, needs, f"feature:{need.word}", need.where)
        nodes = nodes_for(needs, cluster)
        if nodes is None:
            yield case.unknown(f"nobody knows: {cluster.missing()}", measurement="scontrol -o show node")
            continue
        those = [one for one in nodes if need.word in features_of(one)]
        known = sorted(set().union(*(features_of(one) for one in nodes)) if nodes else [])
        text = f"{len(those)} of {len(nodes)} usable nodes have feature '{need.word}'"
        remedy = f"correct the row of constraints: {nearest(need.word, known)}"
        yield case.at_least(len(those), 1, "", text, remedy=remedy)


def nodes_for(needs: SiteNeeds, cluster: Cluster) -> list[Record] | None:
    """The usable nodes of the partitions that the job names, of all when it names none; None while not known."""
    nodes = cluster.nodes()
    if nodes is None:
        return None
    asked = {one.word for one in needs.words(Kind.PARTITION)}
    return [
        one for one in nodes.values() if usable(one) and (not asked or asked & set(one.get("Partitions", "").split(",")))
    ]  # fmt: skip


def _accepted(needs: SiteNeeds, cluster: Cluster, place: Place) -> Finding:
    """Slurm says itself whether it would take the script, without taking it."""
    case = case_of(checks.SLURM, needs, f"job:{needs.workload}")
    measurement = "sbatch --test-only SCRIPT, at the site"
    if place.captured is not None:
        return case.unknown("captured output cannot say it", measurement=measurement)
    if cluster.silent:
        return case.unknown(f"nobody knows: {cluster.silent}", measurement=measurement)
    try:
        result = place.run(["sbatch", "--test-only"], stdin=needs.script.encode())
    except PortError as error:
        return case.unknown(f"nobody knows: {error.happened}", measurement=measurement)
    said = re.sub(r"\bsbatch: ", "", result.complaint)
    if result.exit_code == 0:
        return case.holds(True, f"Slurm would take it: {said}", remedy="")
    if re.search(SILENT, said, re.IGNORECASE):
        return case.unknown(f"Slurm does not answer: {said}", measurement=measurement)
    return case.holds(False, f"Slurm would refuse it: {said}", remedy="correct what Slurm names, in the mapping or at the site")


def other_names(needs: SiteNeeds, cluster: Cluster) -> Iterator[Finding]:
    """Nodes, clusters, licenses, environments of conda: only nodes and clusters can be looked up."""
    for need in needs.words(Kind.NAME):
        case = case_of(checks.OTHER, needs, f"name:{need.word}", need.where)
        yield _name(need, case, cluster)


def _name(need: Need, case: Case, cluster: Cluster) -> Finding:
    match need.holder:
        case "--clusters":
            name = cluster.config("ClusterName")
            if name is not None:
                return case.holds(name == need.word, f"the cluster is called '{name}'", remedy="correct the row of names")
        case "--nodelist" | "--exclude":
            nodes = cluster.nodes()
            if nodes is not None and "[" not in need.word:
                return case.holds(need.word in nodes, f"node '{need.word}'", remedy="correct the row of names")
        case _:
            pass
    return case.unknown(f"'{need.word}' of {need.holder or 'the job'} cannot be looked up", measurement=f"look for {need.word} at the site")
