"""Discovery: captured output of tools becomes facts, facts become an estate (M2). No I/O."""
