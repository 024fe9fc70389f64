"""What goes wrong with a chat platform, and is a person's to mend."""

from __future__ import annotations

from backscroll.operators.errors import BackscrollError

__all__ = ["ChatError"]


class ChatError(BackscrollError):
    """A platform cannot be listened to; one line says which, why and what would be right."""
