"""Outputs of a plan: a page with drawings, a calendar, a list for movers, a task sheet for each crew."""
