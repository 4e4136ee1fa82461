"""Windows: the time in which something may move (M5.0, M8.3; windows and blackouts of the policy). Pure; seconds since 1970."""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.model.policy import Period


def usable(windows: Sequence[Period], blackouts: Sequence[Period]) -> tuple[tuple[float, float], ...]:
    """Pieces of time in which something may move, in order: windows joined where they overlap, without the blackouts."""
    joined: list[tuple[float, float]] = []
    for begins, ends in sorted((one.begins_s, one.ends_s) for one in windows):
        if joined and begins <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], ends))
        else:
            joined.append((begins, ends))
    for black in blackouts:
        cut: list[tuple[float, float]] = []
        for begins, ends in joined:
            cut += [(begins, min(ends, black.begins_s)), (max(begins, black.ends_s), ends)]
        joined = [piece for piece in cut if piece[1] > piece[0]]
    return tuple(joined)
