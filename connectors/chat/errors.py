"""What goes wrong with a chat platform, and is a person's to mend."""

from __future__ import annotations

__all__ = ["ChatError"]


class ChatError(RuntimeError):
    """A platform cannot be listened to; one line says which, why and what would be right."""
