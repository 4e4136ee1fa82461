"""Runbook: language, pure decisions, the engine shell, gates and the ledger (R14; design rules 3-7)."""
