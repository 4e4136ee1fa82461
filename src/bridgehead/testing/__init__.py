"""Shipped to users: one conformance suite per port, and faulty wrappers around ports."""
