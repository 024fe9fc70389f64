"""Logging of a service to standard error. Log lines never contain the text of a message."""

from __future__ import annotations

import logging

__all__ = ["set_up_logging"]


def set_up_logging() -> None:
    """Log what an operator should know, without kafka-python's own log: we report its errors ourselves."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
