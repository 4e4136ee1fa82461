"""What a Slurm cluster says of itself: partitions, nodes, accounts, QoS; asked for as lists, so that captured output serves as well."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.app.site_preflight.place import Place
from bridgehead.kernel.errors import Permanent, PortError

QUERIES: Final = {
    "scontrol-show-config.txt": ("scontrol", "show", "config"),
    "scontrol-show-partition.txt": ("scontrol", "-o", "show", "partition"),
    "scontrol-show-node.txt": ("scontrol", "-o", "show", "node"),
    "scontrol-show-reservation.txt": ("scontrol", "-o", "show", "reservation"),
    "sacctmgr-show-assoc.txt": ("sacctmgr", "-nP", "show", "assoc", "format=cluster,account,user,qos"),
    "sacctmgr-show-qos.txt": ("sacctmgr", "-nP", "show", "qos", "format=name"),
    "id.txt": ("id", "-un"),
}
"""Name of the captured file and the command that writes it."""
_NO_USE: Final = frozenset(
    (
        *("DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "UNKNOWN", "NOT_RESPONDING", "FUTURE", "ERROR", "INVAL"),
        *("MAINT", "MAINTENANCE"),
    )
)
SILENT: Final = r"contact|timed out|connect|munge|took longer"
"""What clients say when slurmctld does not answer."""
Record = dict[str, str]


class Association(msgspec.Struct, frozen=True):
    """That a user may charge an account."""

    cluster: str
    account: str
    user: str
    qos: frozenset[str]


class Cluster:
    """Answers, each asked for once. A method returns None when it cannot be had; ``why`` then says why."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._texts: dict[str, str | None] = {}
        self.why: dict[str, str] = {}
        self.silent = ""
        """Why slurmctld does not answer; then it is not asked again, since each call waits for it."""

    def config(self, key: str) -> str | None:
        """A value of slurm.conf as it counts now."""
        text = self._text("scontrol-show-config.txt")
        found = None if text is None else re.search(rf"^{re.escape(key)}\s*=[ \t]*(.*)$", text, re.MULTILINE)
        return found[1].strip() if found else None

    def partitions(self) -> dict[str, Record] | None:
        """By name."""
        return self._records("scontrol-show-partition.txt", "PartitionName")

    def nodes(self) -> dict[str, Record] | None:
        """By name."""
        return self._records("scontrol-show-node.txt", "NodeName")

    def reservations(self) -> dict[str, Record] | None:
        """By name."""
        return self._records("scontrol-show-reservation.txt", "ReservationName")

    def keeps_accounts(self) -> bool | None:
        """Whether accounts and QoS mean anything: without slurmdbd, or when it does not enforce them, every name is taken."""
        kind, enforced = self.config("AccountingStorageType"), self.config("AccountingStorageEnforce")
        if kind is None or enforced is None:
            return None
        return "slurmdbd" in kind and bool({"associations", "limits", "qos", "safe", "all"} & set(enforced.lower().split(",")))

    def associations(self) -> list[Association] | None:
        """Of this cluster."""
        text, cluster = self._text("sacctmgr-show-assoc.txt"), self.config("ClusterName")
        if text is None or cluster is None:
            return None
        rows = [line.split("|") for line in text.splitlines() if line.count("|") >= 3]
        return [Association(row[0], row[1], row[2], frozenset(filter(None, row[3].split(",")))) for row in rows if row[0] == cluster]

    def qos(self) -> frozenset[str] | None:
        """Names."""
        text = self._text("sacctmgr-show-qos.txt")
        return None if text is None else frozenset(line.strip("| ") for line in text.splitlines() if line.strip("| "))

    def user(self) -> str | None:
        """As whom commands run there."""
        text = self._text("id.txt")
        return None if text is None else text.strip()

    def missing(self) -> str:
        """Why something could not be had, in short."""
        return "; ".join(dict.fromkeys(self.why.values())) or "Slurm does not say"

    def _text(self, name: str) -> str | None:
        if name not in self._texts:
            try:
                if self.silent and QUERIES[name][0] != "id":
                    raise Permanent(self.silent, tried="ask Slurm", subject=name)
                self._texts[name] = self._place.text(name, QUERIES[name])
            except PortError as error:
                self._texts[name] = None
                self.why[name] = error.happened
                if QUERIES[name][0] == "scontrol" and re.search(SILENT, error.happened, re.IGNORECASE):
                    self.silent = error.happened
        return self._texts[name]

    def _records(self, name: str, key: str) -> dict[str, Record] | None:
        text = self._text(name)
        if text is None:
            return None
        records = [dict(re.findall(r"(?:^|\s)([A-Za-z/:]+)=(.*?)(?=\s[A-Za-z/:]+=|\s*$)", line)) for line in text.splitlines()]
        return {one[key]: one for one in records if key in one}


def usable(node: Record) -> bool:
    """Whether jobs can get it: not while it does not respond (``*``) or is kept for maintenance (``$``)."""
    if re.search(r"[*$]", node.get("State", "")):
        return False
    return not set(re.split(r"[+~#!%@^-]+", node.get("State") or "UNKNOWN")) & _NO_USE


def gpus_of(node: Record) -> dict[str, int]:
    """Number by type; "" for GPUs without type (D17: ``gpu:h100:4(S:0-1)``)."""
    found: dict[str, int] = {}
    for kind, count in re.findall(r"\bgpu:(?:([A-Za-z][\w.-]*):)?(\d+)", node.get("Gres", "")):
        found[kind] = found.get(kind, 0) + int(count)
    return found


def features_of(node: Record) -> frozenset[str]:
    """Those that are active, and those that it could have after a reboot."""
    words = ",".join(node.get(key, "") for key in ("ActiveFeatures", "AvailableFeatures"))
    return frozenset(word for word in words.split(",") if word and word != "(null)")


def listed(record: Record, key: str) -> frozenset[str] | None:
    """A list of a partition; None for ALL and for nothing."""
    value = record.get(key, "ALL")
    return None if value in ("ALL", "(null)", "") else frozenset(value.split(","))
