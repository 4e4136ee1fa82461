"""Kernel: ids, quantities, errors, canonical encoding, hashing and seeded random streams. No I/O."""
