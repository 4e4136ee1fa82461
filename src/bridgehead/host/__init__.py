"""Host: what drivers and engines share of the machine they run on: durable files, the desired state of a proxy, HTTP questions.

Nothing is imported here: the supervisor of each job passes through this package and must start in milliseconds.
"""
