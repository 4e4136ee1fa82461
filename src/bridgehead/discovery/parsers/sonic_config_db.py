"""SONiC ``config_db.json``: ports, VXLAN and EVPN, PFC, ECN and maps of DSCP (M8.1, M8.2)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.jsontext import Unreadable
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, number_in
from bridgehead.discovery.switch_config import SWITCH_YIELDS, dscp_of, in_order, names_in, numbers_in, state_classes, state_common
from bridgehead.discovery.tables import Table, json_documents, path_part

# A large file begins with its lists of rules and buffers, so names of those count too.
_HEAD: Final = re.compile(
    rb'"(?:DEVICE_METADATA|PORT_QOS_MAP|DSCP_TO_TC_MAP|WRED_PROFILE|VXLAN_TUNNEL(?:_MAP)?|VXLAN_EVPN_NVO|ACL_RULE|ACL_TABLE|BGP_NEIGHBOR'
    rb'|BUFFER_PG|BUFFER_POOL|BUFFER_PROFILE|DEVICE_NEIGHBOR)"\s*:\s*\{'
)
_REFERENCE: Final = re.compile(r"\[?(?:\w+\|)?([^|\[\]]{1,80})\]?")
_COLORS: Final = ("green", "yellow", "red")
_MAPS: Final = (("TC_TO_QUEUE_MAP", "queue"), ("TC_TO_PRIORITY_GROUP_MAP", "priority-group"))


def recognises(head: bytes) -> bool:
    """Names of its tables."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """The switch and its ports. Its name is that in the metadata, else that of the capture."""
    say = Statements("sonic-config-db", capture)
    for document in json_documents(capture):
        if isinstance(document, Unreadable):
            say.skip(document.line, document.reason)
        elif isinstance(document, Table):
            _Config(say, document, capture.host).state()
    return say.done()


class _Config:
    """One configuration."""

    def __init__(self, say: Statements, tables: Table, host: str) -> None:
        self._say, self._tables = say, tables
        self._local = tables.table("DEVICE_METADATA").table("localhost")
        self._switch = f"switch:{path_part(self._local.text('hostname') or host)}"

    def state(self) -> None:
        """All facts."""
        self._system()
        self._overlay()
        self._ports()
        self._classes()
        self._marking()

    def _system(self) -> None:
        say, local = self._say, self._local
        if "bgp_asn" in local and local.text("bgp_asn").lower() not in ("none", "null"):
            say.number(self._switch, "bgp-asn", local.text("bgp_asn"), line=local.at("bgp_asn"))
        version = self._tables.table("VERSIONS").table("DATABASE")
        if text := version.text("VERSION"):
            say.word(self._switch, "system-version", f"SONiC {text}", line=version.at("VERSION"))
        neighbors = self._tables.table("BGP_NEIGHBOR")
        for key in neighbors:
            one = neighbors.table(key)
            if "asn" in one:
                subject = f"{self._switch}/neighbor:{path_part(key.rpartition('|')[2])}"
                say.word(subject, "remote-as", one.text("asn"), line=one.at("asn"))

    def _overlay(self) -> None:
        say, maps = self._say, self._tables.table("VXLAN_TUNNEL_MAP")
        vnis: list[str] = []
        for key in maps:
            vni, vlan = maps.table(key).text("vni"), maps.table(key).text("vlan").removeprefix("Vlan")
            if number_in(vni) is None:
                say.skip(maps.at(key), f"a VXLAN without a number: {key[:60]!r}")
                continue
            vnis.append(vni)
            say.number(self._switch, f"vni-vlan:{vni}", vlan, line=maps.table(key).at("vlan"))
        if vnis:
            say.known(self._switch, "vnis", in_order(vnis), line=self._tables.at("VXLAN_TUNNEL_MAP"))
        tunnels = self._tables.table("VXLAN_TUNNEL")
        for key in tunnels:
            if text := tunnels.table(key).text("src_ip"):
                say.known(self._switch, "vxlan-source", text, line=tunnels.table(key).at("src_ip"))
        if self._tables.table("VXLAN_EVPN_NVO"):
            say.known(self._switch, "evpn", True, line=self._tables.at("VXLAN_EVPN_NVO"))

    def _ports(self) -> None:
        say, ports, peers = self._say, self._tables.table("PORT"), self._tables.table("DEVICE_NEIGHBOR")
        for name in ports:
            one, subject = ports.table(name), self._port(name)
            if "mtu" in one:
                say.number(subject, "mtu", one.text("mtu"), line=one.at("mtu"), unit="B")
            if "speed" in one:
                say.number(subject, "rate-configured", one.text("speed"), line=one.at("speed"), unit="bit/s", scale=1e6)
            for key, attribute in (("admin_status", "admin-state"), ("description", "port-description"), ("fec", "fec")):
                if one.text(key):
                    say.known(subject, attribute, one.text(key), line=one.at(key))
        for name in peers:
            one = peers.table(name)
            if one.text("name") and one.text("port"):
                peer = f"switch:{path_part(one.text('name'))}/port:{path_part(one.text('port'))}"
                note = "the configuration does not say whether the other end is a switch or a host"
                say.known(self._port(name), "peer-configured", peer, line=one.at("port"), note=note)

    def _classes(self) -> None:
        say, maps = self._say, self._tables.table("PORT_QOS_MAP")
        lossless: dict[str, tuple[tuple[str, ...], int]] = {}
        for key in maps:
            one = maps.table(key)
            for name in names_in(key):
                if "pfc_enable" in one:
                    text, line = one.text("pfc_enable"), one.at("pfc_enable")
                    if name != "global":
                        state_classes(say, self._port(name), "pfc-priorities", text, line=line)
                    if (found := numbers_in(text)) is not None:
                        lossless[name] = (found, line)
                if one.text("dscp_to_tc_map") and name != "global":
                    say.known(self._port(name), "dscp-map", _name(one.text("dscp_to_tc_map")), line=one.at("dscp_to_tc_map"))
        state_common(say, self._switch, "pfc-priorities", lossless)
        points = self._tables.table("DSCP_TO_TC_MAP")
        for name in points:
            for key in points.table(name):
                point, line = dscp_of(key), points.table(name).at(key)
                if point is None:
                    say.skip(line, f"no code point: {key[:40]!r}")
                else:
                    subject = f"{self._switch}/dscp-map:{path_part(name)}"
                    say.number(subject, f"traffic-class:{point}", points.table(name).text(key), line=line)
        for kind, word in _MAPS:
            table = self._tables.table(kind)
            for name in table:
                for key in table.table(name):
                    if number_in(key) is not None:
                        subject, line = f"{self._switch}/class-map:{path_part(name)}", table.table(name).at(key)
                        say.number(subject, f"{word}:{key.strip()}", table.table(name).text(key), line=line)

    def _marking(self) -> None:
        say, profiles, queues = self._say, self._tables.table("WRED_PROFILE"), self._tables.table("QUEUE")
        marking: set[str] = set()
        for name in profiles:
            one, subject = profiles.table(name), f"{self._switch}/ecn:{path_part(name)}"
            mode = one.text("ecn") or "ecn_none"
            if "ecn" in one:
                say.word(subject, "ecn", mode, line=one.at("ecn"))
            if mode != "ecn_none":
                marking.add(name)
            color = next((color for color in _COLORS if f"{color}_min_threshold" in one), "green")
            for key, attribute in ((f"{color}_min_threshold", "threshold-min"), (f"{color}_max_threshold", "threshold-max")):
                if key in one:
                    say.number(subject, attribute, one.text(key), line=one.at(key), unit="B")
            if (key := f"{color}_drop_probability") in one:
                say.number(subject, "mark-probability", one.text(key), line=one.at(key), unit="%")
        marked: dict[str, tuple[tuple[str, ...], int]] = {}
        for key in queues:
            ports, _, numbers = key.rpartition("|")
            one = queues.table(key)
            profile, found = _name(one.text("wred_profile")), numbers_in(numbers)
            if not profile or found is None:
                continue
            for port in names_in(ports):
                for number in found:
                    say.known(self._port(port), f"ecn-profile:{number}", profile, line=one.at("wred_profile"))
                if profile in marking:
                    before = marked.get(port, ((), 0))[0]
                    marked[port] = (in_order([*before, *found]), one.at("wred_profile"))
        state_common(say, self._switch, "ecn-classes", marked)

    def _port(self, name: str) -> str:
        return f"{self._switch}/port:{path_part(name)}"


def _name(reference: str) -> str:
    """Older versions write ``[TABLE|NAME]`` where newer ones write ``NAME``."""
    found = _REFERENCE.fullmatch(reference)
    return found[1] if found else reference


PARSER = Parser(
    tool="sonic-config-db",
    command="cat /etc/sonic/config_db.json",
    recognises=recognises,
    parse=parse,
    yields=SWITCH_YIELDS,
)
