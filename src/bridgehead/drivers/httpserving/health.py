"""HttpServing: asks a backend itself, past the proxy, for its own health report (ports.serving.Serving)."""

from __future__ import annotations

import msgspec

from bridgehead.host.netns import inside
from bridgehead.host.questions import ask
from bridgehead.kernel.errors import NotFound, Permanent
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.ports.serving import ServingHealth

_TRIED = "ask a backend for its health"


class HttpServingOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Addresses ``http://host:port`` of the backends by service and site, and the path of the health report on them.

    ``namespace``: the network namespace of this machine in which they listen; "" for the machine itself.
    """

    backends: dict[ServiceId, dict[SiteId, str]]
    path: str = "/healthz"
    timeout_s: float = 2.0
    namespace: str = ""


class HttpServing:
    """``GET <backend>/healthz`` answers 200 with the JSON of ``ServingHealth``, whether warm or not."""

    def __init__(self, options: HttpServingOptions) -> None:
        self._options = options

    def health(self, service: ServiceId, site: SiteId) -> ServingHealth:
        """See the port. Raises Permanent when the answer is not a health report."""
        backend = self._options.backends.get(service, {}).get(site)
        if backend is None:
            known = ", ".join(sorted(self._options.backends.get(service, {}))) or "none"
            raise NotFound("no such backend", tried=_TRIED, subject=f"{service} at {site}", remedy=f"Sites of this service: {known}.")
        url = backend.rstrip("/") + self._options.path
        timeout_s = self._options.timeout_s
        body = inside(self._options.namespace, lambda: ask(url, accept="application/json", tried=_TRIED, timeout_s=timeout_s))
        try:
            return msgspec.json.decode(body, type=ServingHealth)
        except msgspec.MsgspecError as error:
            raise Permanent(
                f"the answer is not a health report ({error})",
                tried=_TRIED,
                subject=url,
                remedy="Check the address; the backend must answer with warm, model_hash and snapshot.",
            ) from error
