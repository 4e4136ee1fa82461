"""Lab: two sites and a witness in network namespaces of this machine, with real servers; for tests, drills and trying things (R13).

Everything of a lab runs inside its own namespaces, so that ending it means ending what lives in them, whoever started it and however the
start ended. ``lab.json`` in the lab's folder says what there is; it is written before anything is made.
"""
