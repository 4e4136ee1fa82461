"""Money: what each input moves when it is a fifth less or more, drawn to both sides."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from bridgehead.app.demo.report import svg
from bridgehead.planning.cost import Cost, Effect

_WIDTH: Final = 1070.0
_LABELS: Final = 300.0
_ROW: Final = 26.0
_MOST: Final = 12


def tornado(found: Cost) -> Markup:
    """By the payback where there is one, else by the cost; nothing where no input moves anything."""
    paid = found.payback_months is not None
    shown = found.sensitivity[:_MOST]
    spans = [_span(one, found, paid=paid) for one in shown]
    widest = max((abs(value) for span in spans for value in span), default=0.0)
    if not widest:
        return Markup("")
    middle = _LABELS + (_WIDTH - _LABELS) / 2
    room = (_WIDTH - _LABELS) / 2 - 90
    drawn = [svg.line((middle, 16), (middle, 20 + len(shown) * _ROW), class_="axis")]
    base = f"{found.payback_months:.1f} months" if found.payback_months is not None else f"{found.extra:,.0f} {found.currency}"
    drawn.append(svg.text((middle, 11), base, class_="tick", anchor="middle"))
    for number, (one, span) in enumerate(zip(shown, spans, strict=True)):
        y = 22 + number * _ROW
        drawn.append(svg.text((0, y + 14), svg.shortened(one.input, width_px=_LABELS - 12, size_px=12.5), class_="label"))
        for value, look, words in ((span[0], "less", "a fifth less"), (span[1], "more", "a fifth more")):
            width = room * abs(value) / widest
            left = middle - width if value < 0 else middle
            drawn.append(
                svg.rect((left, y + 3), width, _ROW - 8, class_=f"sway sway-{look}", title=f"{one.input}, {words}: {_words(value, paid)}")
            )
            at, anchor = (left - 5, "end") if value < 0 else (middle + width + 5, "start")
            if abs(value) > widest / 200:
                drawn.append(svg.text((at, y + 15), _words(value, paid), class_="tick", anchor=anchor))
    words = "Inputs by what they move: the change when one is a fifth less, and a fifth more, everything else as it is."
    return svg.picture("sensitivity", _WIDTH, 26 + len(shown) * _ROW, drawn, title="What decides the cost", description=words)


def _span(one: Effect, found: Cost, *, paid: bool) -> tuple[float, float]:
    """Change for less and for more; a payback that never comes counts as the change of the cost cannot, so as ten years."""
    if not paid or found.payback_months is None:
        return one.less, one.more
    ends = [120.0 if months is None else months for months in (one.payback_less, one.payback_more)]
    return ends[0] - found.payback_months, ends[1] - found.payback_months


def _words(value: float, paid: bool) -> str:
    return f"{value:+.1f} months" if paid else f"{value:+,.0f}"
