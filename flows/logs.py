"""Logging of a service, on standard error. No line holds the text of a message."""

from __future__ import annotations

import logging

__all__ = ["set_up_logging"]


def set_up_logging() -> None:
    """One line for what an operator should know; what clients log is said in our words."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for client in ("kafka", "slack_sdk", "nio"):
        logging.getLogger(client).setLevel(logging.CRITICAL)
