"""Prompts: the files of `operators/prompts` filled in, with chat text fenced off as data.

The fence is a digest of the text that it encloses, so no message can contain the line that closes
it; further lines of a message are indented, so none can look like a message of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from hashlib import blake2b
from importlib.resources import files

from operators.languages import language_name
from operators.llm import Prompt
from operators.memory import MemoryTurn
from operators.messages import Turn
from operators.windows import Window

__all__ = ["PromptFile", "chat_line", "fenced", "gaps_prompt", "indented", "load_prompt", "summary_prompt"]

_GAP_TOKENS = 1500  # eight gaps with all their fields
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A prompt's version and its text, with `{{name}}` where a value goes."""

    version: str
    text: str

    def fill(self, **values: object) -> str:
        """The text with its values."""
        text = self.text
        for name, value in values.items():
            text = text.replace(f"{{{{{name}}}}}", str(value))
        return text


@cache
def load_prompt(name: str) -> PromptFile:
    """A file of `operators/prompts`: `version: N`, a line of dashes, the text."""
    head, text = files("operators.prompts").joinpath(f"{name}.md").read_text("utf-8").split("\n---\n", 1)
    return PromptFile(head.removeprefix("version:").strip(), text.strip())


def gaps_prompt(window: Window, *, model: str, max_gaps: int) -> Prompt:
    """Ask for the gaps of a window, from the window alone."""
    prompt = load_prompt("gaps")
    lines = [f"[{index}] {_line(turn, turn.text)}" for index, turn in enumerate(window.turns)]
    fence, user = fenced({"window": lines})
    return Prompt(
        stage="gaps",
        version=prompt.version,
        model=model,
        system=prompt.fill(max_gaps=max_gaps, fence=fence),
        user=user,
        subject=window.ref,
        max_tokens=_GAP_TOKENS,
    )


def summary_prompt(
    window: Window,
    memory: Sequence[MemoryTurn],
    *,
    model: str,
    max_tokens: int,
    temperature: float = 0.0,
    unsupported: Sequence[str] = (),
) -> Prompt:
    """Ask for the summary of a window, with its memory where there is one.

    Args:
        window: the window with its turns.
        memory: earlier turns, in the order of the channel.
        model: the model's name.
        max_tokens: most tokens of the summary.
        temperature: of sampling.
        unsupported: spans of an earlier answer that nothing supported; the model is told.
    """
    prompt = load_prompt("summary" if memory else "summary_without_memory")
    parts = {"memory": [_line(entry.turn, entry.text) for entry in memory]} if memory else {}
    parts["window"] = [_line(turn, turn.text) for turn in window.turns]
    fence, user = fenced(parts)
    language = language_name([turn.text for turn in window.turns])
    system = prompt.fill(language=language, max_words=int(max_tokens * 0.6), fence=fence)
    if unsupported:
        spans = "\n".join(f"- {' '.join(span.split())}" for span in unsupported)
        system += f"\n\nAn earlier attempt stated these, which no message says. Leave them out:\n{spans}"
    return Prompt(
        stage="summary",
        version=prompt.version,
        model=model,
        system=system,
        user=user,
        subject=window.ref,
        max_tokens=2 * max_tokens + 64,  # room for the JSON around it; a cut answer is a failure
        temperature=temperature,
        recalled=tuple(entry.turn.seq for entry in memory),
    )


def chat_line(ts: datetime, author: str, text: str) -> str:
    """A message as prompts show it."""
    return f"{ts:%Y-%m-%d %H:%M} {author}: {indented(text)}"


def indented(text: str) -> str:
    """Text whose further lines cannot pose as lines of the prompt."""
    return text.strip().replace("\r", "\n").replace("\n", f"\n{_INDENT}")


def fenced(parts: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """The fence and the user message: every part between two lines with the fence and its name."""
    bodies = {name: "\n".join(lines) for name, lines in parts.items()}
    fence = f"<<{blake2b(''.join(bodies.values()).encode(), digest_size=6).hexdigest()}>>"
    blocks = [f"{fence} {name} begins\n{body}\n{fence} {name} ends" for name, body in bodies.items()]
    return fence, "\n\n".join(blocks)


def _line(turn: Turn, text: str) -> str:
    return chat_line(turn.ts, turn.author.name, text)
