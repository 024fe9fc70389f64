"""Edits and deletions of messages, and how they change a turn.

The last edit in event time wins and a deletion is final, so applying a change twice, as after a
restart, has no effect. `seq` and window boundaries do not change.

>>> from backscroll.operators.messages import Author
>>> at = datetime.fromisoformat
>>> turn = Turn(7, "m7", at("2026-03-02T09:00:00Z"), Author("a", "Ana"), "at noon", 5, 1)
>>> later = Change("m7", at("2026-03-02T09:05:00Z"), "at one").apply(turn)
>>> later.text, Change("m7", at("2026-03-02T09:04:00Z"), "at two").apply(later)
('at one', None)
>>> Change("m7", at("2026-03-02T09:06:00Z"), None).apply(later).rendered
''
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from backscroll.operators.language.tokens import count
from backscroll.operators.messages import NOBODY, ChannelKey, Turn

__all__ = ["Change", "Changes"]


@dataclass(frozen=True, slots=True)
class Change:
    """A new text for a message, edited at the time `ts`; with the text None, its deletion."""

    id: str
    ts: datetime
    text: str | None

    def apply(self, turn: Turn) -> Turn | None:
        """The changed turn; None if nothing changes."""
        if turn.deleted:
            return None
        if self.text is None:
            return Turn(turn.seq, turn.id, turn.ts, NOBODY, "", 0, 0, edited=self.ts, deleted=True)
        if self.text == turn.text or (turn.edited is not None and self.ts < turn.edited):
            return None
        tokens = count(f"{turn.author.name}: {self.text}\n")
        return replace(turn, text=self.text, tokens=tokens, edited=self.ts)


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes to closed turns of one channel, in stream order."""

    key: ChannelKey
    changes: tuple[Change, ...]
