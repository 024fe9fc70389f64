"""The items of a catch-up by a language model, each checked against the messages that it cites.

An item has to cite messages that were shown, and they have to contain it: its figures and names are
theirs (`summary.unsupported`), and most of its words that say something, where it is in their
language. What does not hold up is dropped and counted. When the model fails, the rules stand in.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from backscroll.operators.catchup.digest import ChannelRead, Suggested
from backscroll.operators.catchup.due_dates import find_due
from backscroll.operators.catchup.rule_items import CatchupItem, book_of
from backscroll.operators.language.identify import language_name
from backscroll.operators.language.lexicon import words
from backscroll.operators.language.salience import AnalysedTurn, analyse_turns
from backscroll.operators.llm.prompts import chat_line, fenced, load_prompt
from backscroll.operators.llm.protocol import LLM, LLMError, ModelAnswer, Prompt
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import WindowRef
from backscroll.operators.summary.unsupported import unsupported_spans

__all__ = ["SuggestedItem", "SuggestedItems", "catchup_prompt", "guard_items", "suggest"]

_PART_TOKENS = 6_000  # of messages in one question


_LEAST_SHARE = 0.4  # of an item's words that say something, which the messages have to hold


_PREFIX = 5  # equal first letters that make two words forms of one


def _stripped(text: str) -> str:
    if stripped := " ".join(text.split()):
        return stripped
    raise ValueError("the text is empty")


class SuggestedItem(ModelAnswer):
    """Something a reader who was away should know, and the numbers of the messages that say it."""

    kind: Literal["decision", "action", "question", "highlight"]
    text: Annotated[str, AfterValidator(_stripped)]
    messages: Annotated[list[int], Field(json_schema_extra={"maxItems": 8})]
    owner: str | None
    due: str | None


class SuggestedItems(ModelAnswer):
    """What happened in a part of a chat, the most important first."""

    items: Annotated[list[SuggestedItem], Field(json_schema_extra={"maxItems": 24})]


async def suggest(
    llm: LLM, channel: ChannelRead, turns: Sequence[Turn], *, model: str, max_tokens: int, zone: tzinfo
) -> Suggested:
    """The model's items for turns of a channel, in parts of 6,000 tokens, and how many were dropped.

    Args:
        llm: the model.
        channel: the channel.
        turns: its turns in the span, without deleted ones.
        model: the model's name.
        max_tokens: of the digest; tells how many items are asked for.
        zone: in which days are meant.
    """
    found, dropped = list[CatchupItem](), 0
    most = max(4, max_tokens // 30)
    for part in _parts(turns):
        prompt = catchup_prompt(channel, part, model=model, max_items=min(24, most))
        try:
            answer = await llm.ask(prompt, SuggestedItems)
        except LLMError as err:
            return Suggested((), 0, f"catchup: {err.kind}")
        items, gone = guard_items(answer.value, part, zone)
        found += items
        dropped += gone
    return Suggested(tuple(found), dropped)


def catchup_prompt(channel: ChannelRead, turns: Sequence[Turn], *, model: str, max_items: int) -> Prompt:
    """Ask for what happened in consecutive turns of a channel."""
    prompt = load_prompt("catchup")
    lines = [
        f"[{number}] {chat_line(turn.ts, turn.author.name, turn.text)}" for number, turn in enumerate(turns)
    ]
    fence, user = fenced({"messages": lines})
    language = language_name([turn.text for turn in turns])
    return Prompt(
        stage="catchup",
        version=prompt.version,
        model=model,
        system=prompt.fill(max_items=max_items, language=language, fence=fence),
        user=user,
        subject=WindowRef(channel.key, 0, turns[0].seq, turns[-1].seq, final=False),
        max_tokens=120 * max_items + 64,
    )


def guard_items(answer: SuggestedItems, turns: Sequence[Turn], zone: tzinfo) -> tuple[list[CatchupItem], int]:
    """The items that the turns they cite contain, and how many do not hold up.

    An owner that neither stands in the messages nor wrote one is left out of its item, and so is a
    date that cannot be read.
    """
    kept, dropped = list[CatchupItem](), 0
    readings = analyse_turns(turns)
    for rank, item in enumerate(answer.items):
        numbers = list(dict.fromkeys(item.messages))
        if not numbers or not all(0 <= number < len(turns) for number in numbers):
            dropped += 1
            continue
        cited = [readings[number] for number in sorted(numbers)]
        if not _contains(cited, item.text):
            dropped += 1
            continue
        first = cited[0].turn
        said = " ".join(f"{one.turn.author.name} {one.turn.text}" for one in cited).casefold()
        owner = item.owner if item.owner and item.owner.casefold() in said else None
        day = first.ts.astimezone(zone).date()
        due = None if not item.due else find_due(item.due, day, book_of(cited[0]))
        if due is not None and due.text.casefold() not in said:
            due = None
        kept.append(
            CatchupItem(
                item.kind,
                first,
                item.text,
                2.0 - rank / 24,
                owner if item.kind == "action" else None,
                due if item.kind == "action" else None,
                asks=item.kind == "question",
                also=tuple(one.turn for one in cited[1:]),
            )
        )
    return kept, dropped


def _contains(cited: Sequence[AnalysedTurn], text: str) -> bool:
    turns = [reading.turn for reading in cited]
    if unsupported_spans(text, turns, []):
        return False
    lexicon = cited[0].lexicon
    said = {word.stem[:_PREFIX] for turn in turns for word in words(f"{turn.author.name} {turn.text}")}
    stated = {word.stem[:_PREFIX] for word in words(text) if lexicon.says_something(word)}
    return not stated or len(stated & said) >= _LEAST_SHARE * len(stated)


def _parts(turns: Sequence[Turn]) -> list[list[Turn]]:
    parts, left = list[list[Turn]](), 0
    for turn in turns:
        if not parts or turn.tokens > left:
            parts.append([])
            left = _PART_TOKENS
        parts[-1].append(turn)
        left -= turn.tokens
    return parts
