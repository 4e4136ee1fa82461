"""The embedded site: jobs as supervised process groups of this machine, trainers controlled through files.

Nothing is imported here, because the supervisor of each job passes through this package and must start in milliseconds.
"""
