"""Drills: recoveries in a bubble, measured and reported (R13)."""
