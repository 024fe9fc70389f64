"""Unique channel names for conversations, whose names may repeat within an export."""

from __future__ import annotations

__all__ = ["ChannelNames"]


class ChannelNames:
    """Gives each conversation its own name, so that two with the same name stay separate channels."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken = set[str]()

    def name(self, identity: str, *wanted: str) -> str:
        """The channel name for conversation `identity`.

        It is the first non-blank of `wanted`; if another conversation has that name, the identity is added.
        """
        if identity not in self._names:
            name = next((one.strip() for one in wanted if one.strip()), identity) or "chat"
            name = name if name not in self._taken else f"{name} ({identity})"
            self._taken.add(name)
            self._names[identity] = name
        return self._names[identity]
