"""Training: the small library that a training script imports. Nothing heavy is imported with it; numpy and torch stay optional."""

from bridgehead.training.opening import create_vault, open_vault
from bridgehead.training.options import SessionOptions
from bridgehead.training.session import Session

__all__ = ["Session", "SessionOptions", "create_vault", "open_vault"]
