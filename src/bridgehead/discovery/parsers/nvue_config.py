"""NVUE configuration of Cumulus Linux (``nv config show``, ``startup.yaml``): VXLAN and EVPN, BFD, PFC, ECN and DSCP (M8.1, M8.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from bridgehead.discovery.jsontext import Unreadable
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, number_in
from bridgehead.discovery.switch_config import (
    SWITCH_YIELDS,
    dscp_of,
    in_order,
    names_in,
    numbers_in,
    state_classes,
    state_milliseconds,
)
from bridgehead.discovery.tables import Table, path_part, yaml_document

_HEAD: Final = re.compile(rb"^- (?:header|set):[ \t]*\r?$", re.MULTILINE)
_SET: Final = re.compile(rb"^- set:[ \t]*\r?$|^    nvue-api-version:", re.MULTILINE)
_SPEED: Final = re.compile(r"(\d{1,4})([GM])", re.ASCII)
_ON: Final = {"on": True, "enabled": True, "off": False, "disabled": False}


def recognises(head: bytes) -> bool:
    """Its list of a head and of what is set."""
    return _HEAD.search(head) is not None and _SET.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """One configuration. Its name is its host name, else that of the capture."""
    say = Statements("nvue-config", capture)
    whole = capture.data if capture.data.endswith((b"\n", b"\r")) else capture.data[: capture.data.rfind(b"\n") + 1]
    if len(whole) < len(capture.data):
        say.skip(len(capture.lines), "the last line has no end and may be cut off")
    begin = _HEAD.search(whole)
    start = whole.count(b"\n", 0, begin.start()) if begin else 0
    # Lines before the document are emptied, so that lines of facts stay right.
    document = yaml_document(Capture(capture.file, b"\n" * start + whole[begin.start() :] if begin else whole))
    if isinstance(document, Unreadable):
        say.skip(document.line, document.reason)
        return say.done()
    parts = [one for one in document if isinstance(one, Table)] if isinstance(document, list) else []
    for part in parts:
        if "set" in part:
            _Config(say, part.table("set"), capture.host).state()
    if not any("set" in part for part in parts):
        say.skip(1, "nothing is set in it")
    return say.done()


class _Config:
    """One configuration."""

    def __init__(self, say: Statements, tree: Table, host: str) -> None:
        self._say, self._tree = say, tree
        self._switch = f"switch:{path_part(tree.table('system').text('hostname') or host)}"

    def state(self) -> None:
        """All facts."""
        self._overlay()
        self._router()
        self._ports()
        self._classes()

    def _overlay(self) -> None:
        say, tree, vnis = self._say, self._tree, dict[str, int]()
        domains = tree.table("bridge").table("domain")
        for domain in domains:
            vlans = domains.table(domain).table("vlan")
            for key in vlans:
                numbers = vlans.table(key).table("vni")
                for vni in (one for one in numbers if one.isdigit()):
                    vnis.setdefault(vni, numbers.at(vni))
                    if key.isdigit():
                        say.number(self._switch, f"vni-vlan:{vni}", key, line=vlans.at(key))
        vrfs = tree.table("vrf")
        for name in vrfs:
            numbers = vrfs.table(name).table("evpn").table("vni")
            for vni in (one for one in numbers if one.isdigit()):
                vnis.setdefault(vni, numbers.at(vni))
        if vnis:
            say.known(self._switch, "vnis", in_order(vnis), line=min(vnis.values()))
        source = tree.table("nve").table("vxlan").table("source")
        if text := source.text("address"):
            say.known(self._switch, "vxlan-source", text, line=source.at("address"))
        evpn = tree.table("evpn")
        self._flag(self._switch, "evpn", evpn, "enable")
        for key in ("dad", "duplicate-address-detection"):
            self._flag(self._switch, "duplicate-address-detection", evpn.table(key), "enable")

    def _router(self) -> None:
        say, common = self._say, self._tree.table("router").table("bgp")
        own = self._tree.table("vrf").table("default").table("router").table("bgp")
        for table in (common, own):
            if table.text("autonomous-system").isdigit():
                say.number(self._switch, "bgp-asn", table.text("autonomous-system"), line=table.at("autonomous-system"))
                break
        paths = own.table("address-family").table("ipv4-unicast").table("multipaths")
        if "ebgp" in paths:
            say.number(self._switch, "ecmp-paths", paths.text("ebgp"), line=paths.at("ebgp"))
        for holder in ("neighbor", "peer-group"):
            table = own.table(holder)
            for name in table:
                self._neighbor(name, table.table(name))

    def _neighbor(self, name: str, one: Table) -> None:
        say, subject, bfd = self._say, f"{self._switch}/neighbor:{path_part(name)}", one.table("bfd")
        if one.text("remote-as"):
            say.word(subject, "remote-as", one.text("remote-as"), line=one.at("remote-as"))
        if (on := _ON.get(bfd.text("enable"))) is not None:
            say.known(subject, "bfd", "on" if on else "off", line=bfd.at("enable"))
        watch = f"{self._switch}/bfd:{path_part(name)}"
        if "detect-multiplier" in bfd:
            say.number(watch, "multiplier", bfd.text("detect-multiplier"), line=bfd.at("detect-multiplier"))
        for key, attribute in (("min-rx-interval", "receive-interval"), ("min-tx-interval", "transmit-interval")):
            if key in bfd:
                state_milliseconds(say, watch, attribute, bfd.text(key), line=bfd.at(key))
        self._flag(subject, "evpn", one.table("address-family").table("l2vpn-evpn"), "enable")

    def _ports(self) -> None:
        say, interfaces = self._say, self._tree.table("interface")
        for key in interfaces:
            link = interfaces.table(key).table("link")
            for name in names_in(key) if link else ():
                subject = f"{self._switch}/port:{path_part(name)}"
                if "mtu" in link:
                    say.number(subject, "mtu", link.text("mtu"), line=link.at("mtu"), unit="B")
                if (speed := _SPEED.fullmatch(link.text("speed"))) and (rate := number_in(speed[1], scale=1e9 if speed[2] == "G" else 1e6)):
                    say.known(subject, "rate-configured", rate, line=link.at("speed"), unit="bit/s")
                state = next(iter(link.table("state")), "") or link.text("state")
                if state in ("up", "down"):
                    say.known(subject, "admin-state", state, line=link.at("state"))

    def _classes(self) -> None:
        say, qos = self._say, self._tree.table("qos")
        roce = qos.table("roce")
        if _ON.get(roce.text("enable")):
            line = roce.at("mode" if "mode" in roce else "enable")
            say.known(self._switch, "roce-mode", roce.text("mode") or "lossless", line=line)
        for name, table in _named(qos.table("pfc")):
            if "switch-priority" in table:
                subject = self._switch if name == "default-global" else f"{self._switch}/port:{path_part(name)}"
                state_classes(say, subject, "pfc-priorities", _keys(table["switch-priority"]), line=table.at("switch-priority"))
        for name, table in _named(qos.table("congestion-control")):
            self._marking(name, table.table("traffic-class"))
        for name, table in _named(qos.table("mapping")):
            points, subject = table.table("dscp"), f"{self._switch}/dscp-map:{path_part(name)}"
            for key in points:
                numbers = [dscp_of(one) for one in numbers_in(key) or (key,)]
                for point in (one for one in numbers if one is not None):
                    given = points.table(key).text("switch-priority") or points.text(key)
                    say.number(subject, f"traffic-class:{point}", given, line=points.at(key))

    def _marking(self, name: str, classes: Table) -> None:
        say, marked = self._say, list[str]()
        for key in classes:
            one = classes.table(key)
            for number in numbers_in(key) or ():
                subject = f"{self._switch}/ecn:{path_part(f'{name}.{number}')}"
                if (on := _ON.get(one.text("ecn"))) is not None:
                    say.known(subject, "ecn", "on" if on else "off", line=one.at("ecn"))
                    marked += [number] if on else []
                for field, attribute, unit in (
                    ("min-threshold-bytes", "threshold-min", "B"),
                    ("max-threshold-bytes", "threshold-max", "B"),
                    ("probability", "mark-probability", "%"),
                ):
                    if field in one:
                        say.number(subject, attribute, one.text(field), line=one.at(field), unit=unit)
        if marked and name == "default-global":
            say.known(self._switch, "ecn-classes", in_order(marked), line=classes.line)

    def _flag(self, subject: str, attribute: str, table: Table, key: str) -> None:
        if key in table:
            value = table[key] if isinstance(table[key], bool) else _ON.get(table.text(key))
            if value is None:
                self._say.unknown(subject, attribute, line=table.at(key), note=f"it says {table.text(key)[:40]!r}")
            else:
                self._say.known(subject, attribute, value, line=table.at(key))


def _named(table: Table) -> Iterator[tuple[str, Table]]:
    return ((name, table.table(name)) for name in table)


def _keys(value: Any) -> str:
    """The numbers of a mapping, a list or a text."""
    return ",".join(str(one) for one in value) if isinstance(value, dict | list) else str(value)


PARSER = Parser(
    tool="nvue-config", command="nv config show", recognises=recognises, marks=(b"- header:", b"- set:"), parse=parse, yields=SWITCH_YIELDS
)
