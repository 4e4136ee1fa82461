"""Drills: recoveries that are played in a bubble, with faults, and measured (R13, J14)."""
