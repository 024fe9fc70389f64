"""Errors of chat platforms that a user can fix."""

from __future__ import annotations

from backscroll.operators.errors import BackscrollError

__all__ = ["ChatError"]


class ChatError(BackscrollError):
    """A chat platform cannot be read. The message is one line: the platform, the problem, the fix."""
