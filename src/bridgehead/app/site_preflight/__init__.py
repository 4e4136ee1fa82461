"""Preflight of a site: proves that everything a workload needs is there, and names what is missing, before anything is stopped."""
