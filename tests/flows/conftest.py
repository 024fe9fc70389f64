"""The brokers, for the tests of this folder that need one."""

from __future__ import annotations

from support.brokers import broker, collected, own_broker, topic

__all__ = ["broker", "collected", "own_broker", "topic"]
