"""Parsers: one file a tool, bytes in, facts out. Each is a ``parsing.Parser``; ``app.wiring`` lists them."""
