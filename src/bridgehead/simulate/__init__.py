"""Simulate: seeded virtual time and models of sites, trainers, backends, proxies, vaults and links. No I/O, one thread, no real clock."""
