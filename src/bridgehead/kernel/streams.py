"""Seeded random streams: independent by name, so that adding a draw in one place never shifts the draws of another.

Same seed and name, same stream, on every machine and Python version (the seed is a hash, the generator is Mersenne Twister).
"""

from __future__ import annotations

import hashlib
import random


def stream(seed: int, *names: str | int) -> random.Random:
    """A generator for the place that ``names`` describes, e.g. ``stream(7, "faults", "traffic")``."""
    text = "/".join([str(seed), *[str(name) for name in names]])
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))
