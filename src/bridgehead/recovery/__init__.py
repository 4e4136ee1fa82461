"""Recovery: composes the vault and the runbook engine through ports into moves, failovers and drills."""
