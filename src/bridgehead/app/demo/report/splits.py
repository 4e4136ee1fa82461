"""Splits: how far the seen share of each weight lay from the asked one, beside what chance allows."""

from __future__ import annotations

from markupsafe import Markup

from bridgehead.app.demo.report import svg, words
from bridgehead.app.demo.summary import Split

_WIDTH_PX, _HEIGHT_PX = 150.0, 22.0


def draw(split: Split, number: int) -> Markup:
    """The seen share as a dot, the tolerance around the asked share as a band. Beyond twice the tolerance the dot stays at the edge."""
    middle, band = _WIDTH_PX / 2, _WIDTH_PX / 4
    drawn = [
        svg.line((2, _HEIGHT_PX / 2), (_WIDTH_PX - 2, _HEIGHT_PX / 2), class_="grid"),
        svg.rect((middle - band, 4), 2 * band, _HEIGHT_PX - 8, class_="tolerance", radius=3),
        svg.line((middle, 2), (middle, _HEIGHT_PX - 2), class_="asked-tick"),
    ]
    if split.sessions:
        off = (split.seen_percent - split.asked_percent) / split.tolerance_percent if split.tolerance_percent else 0.0
        if not split.tolerance_percent and not split.within:
            off = 2.0 if split.seen_percent > split.asked_percent else -2.0
        at = min(max(middle + off * band, 6.0), _WIDTH_PX - 6)
        drawn.append(svg.tag("circle", cx=at, cy=_HEIGHT_PX / 2, r=5, class_="dot-good" if split.within else "dot-bad"))
    seen = words.percent(split.seen_percent, digits=2) if split.sessions else "no session began"
    return svg.picture(
        f"split-{number}",
        _WIDTH_PX,
        _HEIGHT_PX,
        drawn,
        title=f"Asked {words.percent(split.asked_percent)}: {outcome(split)}",
        description=f"Seen: {seen}. Tolerance: {words.percent(split.tolerance_percent, digits=2)} to either side.",
    )


def outcome(split: Split) -> str:
    """What to think of a split."""
    if not split.sessions:
        return "no session began"
    return "as asked" if split.within else "not as asked"
