"""Drivers: one folder for each outside system, each the implementation of one or more ports."""
