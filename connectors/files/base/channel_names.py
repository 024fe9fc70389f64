"""Names of conversations that other conversations of the same export may have, too."""

from __future__ import annotations

__all__ = ["ChannelNames"]


class ChannelNames:
    """Gives each conversation a name of its own: a channel is a wall, also where people share a name."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken = set[str]()

    def name(self, identity: str, *wanted: str) -> str:
        """The name of the conversation `identity`: the first wanted, told apart if it is taken."""
        if identity not in self._names:
            name = next((one.strip() for one in wanted if one.strip()), identity) or "chat"
            name = name if name not in self._taken else f"{name} ({identity})"
            self._taken.add(name)
            self._names[identity] = name
        return self._names[identity]
