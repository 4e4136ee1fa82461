"""Notify files (``notify.yaml`` in the home folder): how people are told, who is called when nobody answers, and who may bring answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from bridgehead.kernel.decode import BAD, Codec, Decoder
from bridgehead.kernel.document import read_document
from bridgehead.kernel.ids import Person
from bridgehead.kernel.located import Mapping as MappingNode
from bridgehead.kernel.located import Node, Path, Scalar
from bridgehead.kernel.phrase import found, nearest
from bridgehead.kernel.schema import json_schema, struct_schema
from bridgehead.kernel.shape import ID_PATTERN, Keyed, shape_of
from bridgehead.model.notice import NoticeKind
from bridgehead.model.recovery import Escalation, Positive

ChannelTypes = Mapping[str, Callable[[], type[msgspec.Struct]]]
"""Notify driver to a function that imports the struct of its options."""
REFERENCES = ("secret://", "file:/")
"""How a reference to a secret begins."""


class Channel(msgspec.Struct, frozen=True):
    """A way to tell.

    Attributes:
        id: its name.
        driver: webhook, email or alertmanager.
        tells: what it is used for; everything, where that is not said.
        options: of the driver.
    """

    id: str
    driver: str
    tells: tuple[NoticeKind, ...] = ()
    options: dict[str, Any] = {}

    def takes(self, kind: NoticeKind) -> bool:
        """Whether it is used for notices of a kind. Who is told that somebody waits must be told that nobody answers."""
        return not self.tells or kind in self.tells or (kind is NoticeKind.CALL and NoticeKind.ASK in self.tells)


class Responder(msgspec.Struct, frozen=True):
    """A system, or a person, that may bring answers.

    Attributes:
        id: its name, a part of the address that it posts to.
        secrets: references to the secrets that it may sign with.
        people: in whose names it may answer.
    """

    id: str
    secrets: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    people: Annotated[tuple[Person, ...], msgspec.Meta(min_length=1)]


class Answers(msgspec.Struct, frozen=True):
    """How answers come by web hook.

    Attributes:
        url: the address at which responders reach `bridgehead people serve`.
        secret: reference to the secret from which the words are made that hold for one answer; the same on all machines.
        responders: who may bring answers.
    """

    url: str
    secret: str
    responders: Annotated[tuple[Responder, ...], Keyed("responder")]


class Notifying(msgspec.Struct, frozen=True):
    """How people are told.

    Attributes:
        name: its name.
        channels: ways to tell, by name.
        on_call: who is told of what concerns nobody by name: alarms, and runs that stand still.
        escalation: who is called when nobody answers, for runs that bring no escalation of their own.
        answers: how answers come by web hook; without it, by the command line alone.
        links: pages that are named with each ask; ``{run}`` and ``{step}`` stand for themselves.
        give_up_s: so long, a notice that cannot be delivered is tried again.
    """

    name: str = msgspec.field(name="notify")
    channels: dict[str, Channel]
    on_call: tuple[Person, ...] = ()
    escalation: tuple[Escalation, ...] = ()
    answers: Answers | None = None
    links: dict[str, str] = {}
    give_up_s: Positive = 3 * 86_400.0


def read_notifying(text: str, *, file: str, drivers: ChannelTypes) -> Notifying:
    """Read a notify file. Raises BadFile (BAD_INPUT) with every fault. A secret that was written out is refused, and not repeated."""
    return read_document(text, Notifying, file=file, what="notify file", codecs=_codecs(drivers), check=_check)[0]


def notifying_schema(drivers: ChannelTypes) -> dict[str, Any]:
    """JSON Schema of notify files, for editors."""
    return json_schema(Notifying, title="Bridgehead notify file", codecs=_codecs(drivers))


def _codecs(drivers: ChannelTypes) -> dict[type, Codec]:
    return {Channel: _ChannelCodec(drivers)}


class _ChannelCodec:
    """A channel: ``driver`` decides which options there are."""

    def __init__(self, drivers: ChannelTypes) -> None:
        self._drivers = drivers

    def decode(self, decoder: Decoder, node: Node, path: Path) -> Any:
        """Read ``driver``, ``tells`` and the options of that driver."""
        if not isinstance(node, MappingNode):
            return decoder.fault(node.mark, path, found(node), "expected a mapping with driver and its options")
        driver, tells = node.get("driver"), node.get("tells")
        if not isinstance(driver, Scalar):
            return decoder.fault(node.mark, (*path, "driver"), "there is no 'driver'", nearest("", self._drivers))
        if driver.text not in self._drivers:
            happened = f"there is no notify driver '{driver.text}'"
            return decoder.fault(driver.mark, (*path, "driver"), happened, nearest(driver.text, self._drivers))
        kinds: Any = () if tells is None else decoder.read(tells, shape_of(tuple[NoticeKind, ...]), (*path, "tells"))
        rest = MappingNode(tuple(entry for entry in node.entries if entry[0].text not in ("driver", "tells")), node.mark)
        options = decoder.plain_struct(rest, self._drivers[driver.text](), path)
        return BAD if options is BAD or kinds is BAD else Channel(str(path[-1]), driver.text, tuple(kinds), options)

    def encode(self, value: Any) -> Any:
        """As files write it, with options as plain values."""
        tells = {"tells": [kind.value for kind in value.tells]} if value.tells else {}
        return {"driver": value.driver, **tells, **value.options}

    def schema(self) -> dict[str, Any]:
        """One alternative for each driver."""
        tells = {"type": "array", "items": {"enum": [kind.value for kind in NoticeKind]}}
        found = []
        for name, load in sorted(self._drivers.items()):
            schema = struct_schema(load())
            schema["properties"] = {"driver": {"const": name}, "tells": tells} | schema["properties"]
            found.append(schema | {"required": ["driver", *schema.get("required", [])]})
        return {"type": "object", "required": ["driver"], "anyOf": found}


def _check(file: Notifying, decoder: Decoder) -> None:
    for channel in file.channels.values():
        if not re.fullmatch(ID_PATTERN, channel.id):
            decoder.fault_at(("channels", channel.id), f"'{channel.id}' cannot be an id", "use letters, digits, '.', '_', '-', at most 63")
        for name in ("secrets", "password"):
            given = channel.options.get(name) or ()
            _check_references((given,) if isinstance(given, str) else given, ("channels", channel.id, name), decoder)
    if file.answers is None:
        return
    if not file.answers.url.startswith(("https://", "http://127.0.0.1", "http://[::1]", "http://localhost")):
        decoder.fault_at(("answers", "url"), "it is no https:// address", "expected https://host of `bridgehead people serve`")
    _check_references((file.answers.secret,), ("answers", "secret"), decoder)
    for one in file.answers.responders:
        _check_references(one.secrets, ("answers", "responders", one.id, "secrets"), decoder)


def _check_references(given: tuple[str, ...] | list[str], path: Path, decoder: Decoder) -> None:
    """What may be a secret is not printed."""
    if not all(text.startswith(REFERENCES) for text in given):
        decoder.fault_at(path, "it is no reference to a secret", "expected secret://MOUNT/PATH#FIELD or file:/PATH")
