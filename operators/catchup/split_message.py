"""Splits a text into parts short enough for chat messages, between lines and without losing any.

>>> pages("Decisions\\n- one\\n- two", 16)
['Decisions\\n- one', '- two']
>>> pages("a line that is long. And more of it.", 22)
['a line that is long.', 'And more of it.']
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["pages"]

_ITEM = "- "
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s|(?<=[。！？])")


def pages(text: str, limit: int) -> list[str]:
    """Split a text into parts of at most `limit` characters, each as full as possible.

    A heading stays with the first item under it. A line longer than a part is cut after a sentence, else
    after a word, else anywhere.
    """
    parts = list[str]()
    for block in _blocks(text, limit):
        if parts and len(parts[-1]) + 1 + len(block) <= limit:
            parts[-1] += f"\n{block}"
        else:
            parts.append(block)
    return [part.strip("\n") for part in parts if part.strip()]


def _blocks(text: str, limit: int) -> Iterator[str]:
    """Blocks to keep together: an item and the non-item lines above it."""
    lines = list[str]()
    for line in [*text.split("\n"), None]:
        if line is not None:
            lines.append(line)
        if line is None or line.startswith(_ITEM):
            block = "\n".join(lines)
            if len(block) <= limit:
                yield block
            else:
                for one in lines:
                    yield from _pieces(one, limit)
            lines.clear()


def _pieces(line: str, limit: int) -> Iterator[str]:
    while len(line) > limit:
        ends = (end.start() for end in _SENTENCE_END.finditer(line, 0, limit + 1))
        cut = max((end for end in ends if end <= limit), default=0)
        cut = cut or max(line.rfind(" ", 1, limit + 1), 0) or limit
        yield line[:cut].rstrip()
        line = line[cut:].lstrip()
    yield line
