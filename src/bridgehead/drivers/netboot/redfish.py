"""Redfish: a node's controller (BMC) is told to start it from the network, once (DMTF DSP0266; DSP2046 for ComputerSystem).

It has met a strict fake of the protocol and sushy-tools' emulator of controllers, and no real hardware.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from bridgehead.host.questions import refused
from bridgehead.host.web import Access, WebAnswer, WebClient
from bridgehead.kernel.errors import Permanent, Unknown

SYSTEMS: Final = "/redfish/v1/Systems"
_MOVED: Final = (301, 302, 307, 308)
_REASON_CHARS: Final = 200


class _Resource(msgspec.Struct, frozen=True):
    """What a GET found: where it really is, its content, its ETag or ""."""

    path: str
    content: dict[str, Any]
    tag: str


class Redfish:
    """One computer system behind one controller.

    Args:
        system: its name below ``/redfish/v1/Systems``; "" for the only one there.
    """

    def __init__(self, url: str, *, system: str, access: Access, timeout_s: float) -> None:
        self._client = WebClient(url, access=access, timeout_s=timeout_s)
        self._system = f"{SYSTEMS}/{system}" if system else ""

    def start_from_network(self) -> None:
        """Set the next start to PXE and begin it: switch on what is off, restart what is on.

        Raises Transient when it was not reached, Unknown when the answer to the restart was lost, Permanent when it is refused.
        """
        resource = self._get(self._path())
        path, found, tag = resource.path, resource.content, resource.tag
        allowed = found.get("Boot", {}).get("BootSourceOverrideTarget@Redfish.AllowableValues")
        if isinstance(allowed, list) and "Pxe" not in allowed:
            raise self._refuse(path, f"it can start from {', '.join(map(str, allowed)) or 'nothing'}, and not from Pxe")
        boot: dict[str, str] = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}
        if found.get("Boot", {}).get("BootSourceOverrideMode"):
            boot["BootSourceOverrideMode"] = "UEFI"
        # Many controllers refuse a change that does not say which state it was made for.
        self._change("PATCH", path, {"Boot": boot}, tried="set the boot device", headers={"If-Match": tag} if tag else {})
        reset = found.get("Actions", {}).get("#ComputerSystem.Reset", {})
        kinds = reset.get("ResetType@Redfish.AllowableValues")
        wanted = ["On", "ForceOn"] if found.get("PowerState") == "Off" else ["ForceRestart", "PowerCycle"]
        kind = next((one for one in wanted if not isinstance(kinds, list) or one in kinds), None)
        if kind is None:
            raise self._refuse(path, f"it can do {', '.join(map(str, kinds or []))}, and none of {', '.join(wanted)}")
        target = reset.get("target") or f"{path}/Actions/ComputerSystem.Reset"
        self._change("POST", str(target), {"ResetType": kind}, tried="start a node")

    def _path(self) -> str:
        if self._system:
            return self._system
        members = self._get(SYSTEMS).content.get("Members")
        if not isinstance(members, list) or len(members) != 1 or not isinstance(members[0], dict):
            many = len(members) if isinstance(members, list) else 0
            raise self._refuse(SYSTEMS, f"it has {many} systems", "Name the right one by 'system' in the rebuild file.")
        self._system = str(members[0].get("@odata.id"))
        return self._system

    def _get(self, path: str) -> _Resource:
        tried, headers = "look at a node's controller", {"Accept": "application/json", "OData-Version": "4.0"}
        answer = self._client.request("GET", path, tried=tried, headers=headers)
        if answer.status in _MOVED:
            path = self._moved(path, answer.headers.get("location", ""))
            answer = self._client.request("GET", path, tried=tried, headers=headers)
        self._check(answer, path, tried)
        try:
            found = msgspec.json.decode(answer.body)
        except msgspec.DecodeError as error:
            raise self._refuse(path, f"its answer is no JSON ({error})") from error
        if not isinstance(found, dict):
            raise self._refuse(path, "its answer is no object")
        return _Resource(path, found, answer.headers.get("etag", ""))

    def _moved(self, path: str, location: str) -> str:
        """Where else on the same server it is: a system may be known by a second name. No other server is given the login."""
        base = urlsplit(self._client.url)
        try:
            there = urlsplit(urljoin(self._client.url + path, location))
        except ValueError as error:
            raise self._refuse(path, f"it sends on to what is no address ({error})") from error
        if (there.scheme, there.netloc) != (base.scheme, base.netloc) or not there.path.startswith(base.path + "/"):
            where = f"{there.scheme}://{there.netloc}{there.path}"
            raise self._refuse(path, f"it sends on to {where}", "Name the right address by 'bmc' in the rebuild file.")
        return there.path.removeprefix(base.path)

    def _change(self, method: str, path: str, body: object, *, tried: str, headers: dict[str, str] | None = None) -> None:
        sent = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        answer = self._client.request(method, path, tried=tried, body=msgspec.json.encode(body), headers=sent, changes=True)
        if answer.status >= 500:
            raise Unknown(
                f"it answered {answer.status}", tried=tried, subject=self._client.url + path, remedy="Look at the node's console."
            )
        self._check(answer, path, tried)

    def _check(self, answer: WebAnswer, path: str, tried: str) -> None:
        if not 200 <= answer.status < 300:
            error, reason = refused(answer.status, tried=tried, subject=self._client.url + path), _reason(answer.body)
            happened = f"{error.happened} ({reason})" if reason else error.happened
            raise type(error)(happened, tried=tried, subject=error.subject, remedy=error.remedy)

    def _refuse(self, path: str, happened: str, remedy: str = "Start the node from the network by hand.") -> Permanent:
        return Permanent(happened, tried="start a node from the network", subject=self._client.url + path, remedy=remedy)


def _reason(body: bytes) -> str:
    """Why the controller refuses, in its own words (DSP0266, error responses); "" when it does not say."""
    try:
        error = msgspec.json.decode(body)["error"]
        told = error.get("@Message.ExtendedInfo") or [{}]
        words = str(told[0].get("Message") or error.get("message") or "")
    except (msgspec.DecodeError, RecursionError, LookupError, TypeError, AttributeError):
        return ""
    return " ".join(words.split())[:_REASON_CHARS]
