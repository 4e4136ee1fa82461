"""Courier: a set of drives as a partial replica of a vault (M9.3). Raw objects as they are in the store, erasure-coded; no keys needed."""
