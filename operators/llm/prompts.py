"""Prompts: templates from a package's `prompts` folder, with chat text fenced off as data.

The fence is a digest of the text it encloses, so no message can contain the closing fence. Continuation
lines of a message are indented, so none can look like a separate message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from hashlib import blake2b
from importlib.resources import files

from backscroll.operators.messages import Turn

__all__ = ["PromptFile", "chat_line", "fenced", "indented", "load_prompt"]

_INDENT = "    "


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A prompt's version and its text, with placeholders such as `{{name}}`."""

    version: str
    text: str

    def fill(self, **values: object) -> str:
        """The text with its placeholders replaced."""
        text = self.text
        for name, value in values.items():
            text = text.replace(f"{{{{{name}}}}}", str(value))
        return text


@cache
def load_prompt(name: str, package: str = "backscroll.operators.llm") -> PromptFile:
    """Load a file from a package's `prompts` folder: `version: N`, a line of dashes, then the text."""
    head, text = files(package).joinpath("prompts", f"{name}.md").read_text("utf-8").split("\n---\n", 1)
    return PromptFile(head.removeprefix("version:").strip(), text.strip())


def chat_line(ts: datetime, author: str, text: str) -> str:
    """A message as it appears in prompts."""
    return f"{ts:%Y-%m-%d %H:%M} {author}: {indented(text)}"


def indented(text: str) -> str:
    """Text with its continuation lines indented, so that they cannot pose as lines of the prompt."""
    return text.strip().replace("\r", "\n").replace("\n", f"\n{_INDENT}")


def fenced(parts: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """The fence and the user message, which has each part between two lines with the fence and its name."""
    bodies = {name: "\n".join(lines) for name, lines in parts.items()}
    fence = f"<<{blake2b(''.join(bodies.values()).encode(), digest_size=6).hexdigest()}>>"
    blocks = [f"{fence} {name} begins\n{body}\n{fence} {name} ends" for name, body in bodies.items()]
    return fence, "\n\n".join(blocks)


def turn_line(turn: Turn, text: str) -> str:
    return chat_line(turn.ts, turn.author.name, text)
