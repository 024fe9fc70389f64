"""Logging of a service, on standard error. No line holds the text of a message."""

from __future__ import annotations

import logging

__all__ = ["set_up_logging"]


def set_up_logging() -> None:
    """One line for what an operator should know; kafka-python's own lines are said in our words."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
