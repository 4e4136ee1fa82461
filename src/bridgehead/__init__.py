"""Bridgehead: move GPU clusters between datacenters while they work, and bring them back after a disaster."""

__version__ = "0.1.0"
