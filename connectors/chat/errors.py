"""What goes wrong with a chat platform, and is a person's to mend."""

from __future__ import annotations

__all__ = ["LiveError"]


class LiveError(RuntimeError):
    """A platform cannot be listened to; one line says which, why and what would be right."""
