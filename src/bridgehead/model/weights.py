"""Traffic weights: the one place that says what a valid set of weights is (M7.3, G10)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bridgehead.kernel.errors import Permanent
from bridgehead.kernel.ids import ServiceId, SiteId

FULL = 100
"""Weights are percent: they add up to this."""


def validated_weights(service: ServiceId, weights: Mapping[SiteId, int], *, sites: Collection[SiteId]) -> dict[SiteId, int]:
    """``weights`` as a plain dict in the order of ``sites``, once they are known to be valid.

    A proxy treats weights as proportions, so 1/1 would silently mean 50 % each and a lone backend of weight 0 would still get
    traffic (G10). Bridgehead therefore takes percent only.

    Raises:
        Permanent: they do not name exactly ``sites``, are not whole numbers from 0 to 100, or do not add up to 100.
    """

    def refusal(happened: str) -> Permanent:
        return Permanent(
            happened,
            tried="set traffic weights",
            subject=f"service {service}",
            remedy=f"Give whole percents for exactly {', '.join(sorted(sites))} that add up to {FULL}.",
        )

    if set(weights) != set(sites):
        raise refusal(f"they name {', '.join(sorted(weights)) or 'no site'}")
    for site, weight in weights.items():
        # bool is an int in Python; True as a weight is a mistake, not 1 %.
        if type(weight) is not int or not 0 <= weight <= FULL:
            raise refusal(f"the weight of {site} is {weight!r}")
    if (total := sum(weights.values())) != FULL:
        raise refusal(f"they add up to {total}")
    return {site: weights[site] for site in sites}
