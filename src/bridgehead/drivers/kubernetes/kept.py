"""Kept: a value of ours in a ConfigMap, changed only if it is still what was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from bridgehead.drivers.kubernetes.api import CONFIG_MAPS, KubeApi, Object, Stale, repeated
from bridgehead.kernel.errors import Permanent, Unknown

T = TypeVar("T", bound=msgspec.Struct)
_KEY: Final = "book.json"


class Kept(Generic[T]):
    """One value.

    Args:
        name: of the ConfigMap.
        empty: the value while there is none.
    """

    def __init__(self, api: KubeApi, *, name: str, empty: T) -> None:
        self._api, self.name, self._empty = api, name, empty

    def read(self, *, tried: str) -> tuple[T, dict[str, str]]:
        """The newest value, and the annotations beside it. Raises Permanent when it is damaged, Transient."""
        found = self._api.find(CONFIG_MAPS, self.name, tried=tried)
        return self._decoded(found, tried), dict(((found or {}).get("metadata") or {}).get("annotations") or {})

    def change(self, how: Callable[[T], T], *, tried: str) -> T:
        """Apply ``how`` to the newest value, perhaps several times, and write it. Raises what ``how`` raises, Permanent, Transient."""

        def once() -> T:
            found = self._api.find(CONFIG_MAPS, self.name, tried=tried)
            value = self._decoded(found, tried)
            changed = how(value)
            if changed != value:
                self._write(found, changed, tried)
            return changed

        return repeated(once)

    def _write(self, found: Object | None, value: T, tried: str) -> None:
        content = msgspec.json.encode(value).decode()
        try:
            if found is None:
                meta = {"name": self.name, "labels": {"app.kubernetes.io/managed-by": "bridgehead"}}
                document: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {_KEY: content}}
                self._api.create(CONFIG_MAPS, document, tried=tried)
            else:
                self._api.replace(CONFIG_MAPS, {**found, "data": {**(found.get("data") or {}), _KEY: content}}, tried=tried)
        except Unknown as error:
            # Whether it was written is in the object itself: read it again.
            raise Stale(error.happened, tried=error.tried, subject=error.subject, remedy=error.remedy) from error

    def _decoded(self, found: Object | None, tried: str) -> T:
        if found is None:
            return self._empty
        try:
            kind: Any = type(self._empty)
            value: T = msgspec.json.decode(found["data"][_KEY], type=kind)
        except (KeyError, TypeError, msgspec.MsgspecError) as error:
            happened = f"the driver's record is damaged ({type(error).__name__})"
            subject = f"configmap {self.name} in {self._api.namespace}"
            raise Permanent(happened, tried=tried, subject=subject, remedy="Restore it from a backup of the cluster.") from error
        return value
