"""Objectives of an estate: who has one, which contradict each other, what each costs, and the cheapest way to meet them.

Pure: no I/O, no clock. Serves R1 to R3, R5, R8, R11 and R17.
"""
