"""Serving: is an inference backend warm, with the right model? A cold target is not judged and gets no traffic."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bridgehead.kernel.ids import ServiceId, SiteId


class ServingHealth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The backend's own report.

    Attributes:
        warm: model loaded and warm-up answered.
        model_hash: content hash of the loaded weights, "" while none is loaded.
        snapshot: id of the snapshot it was loaded from, "" while none.
    """

    warm: bool
    model_hash: str
    snapshot: str


class Serving(Protocol):
    """Health of the backends of services, asked at the backend itself and not through the proxy."""

    def health(self, service: ServiceId, site: SiteId) -> ServingHealth:
        """Raises NotFound for an unknown backend, Transient when it does not answer (it may still be starting)."""
        ...
