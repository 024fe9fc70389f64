"""Catch-up items from a language model, each checked against the messages it cites.

An item must cite messages from the prompt, and at most three of them must support it: they contain its
numbers and names (`summary.unsupported`) and at least 40% of its content words. Items that fail the check
are dropped and counted; further messages that a kept item cites are left out. If the model fails, rules
find the items instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from backscroll.operators.catchup.act_items import CatchupItem
from backscroll.operators.catchup.digest import ChannelRead, Suggested
from backscroll.operators.catchup.due_dates import find_due
from backscroll.operators.language.chat_language import book_of, main_book
from backscroll.operators.language.identify import language_name
from backscroll.operators.language.lexicon import Lexicon, words
from backscroll.operators.language.salience import AnalysedTurn, analyse_turns
from backscroll.operators.llm.prompts import chat_line, fenced, load_prompt
from backscroll.operators.llm.protocol import LLM, LLMError, ModelAnswer, Prompt
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import WindowRef
from backscroll.operators.summary.unsupported import unsupported_spans

__all__ = ["SuggestedItem", "SuggestedItems", "catchup_prompt", "guard_items", "suggest"]

_PART_TOKENS = 6_000  # of messages in one prompt
_MOST_CITED = 3  # messages per item
_LEAST_SHARE = 0.4  # of an item's content words that the messages must contain
_PREFIX = 5  # words with the same first letters count as the same


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
    """Ask the model for items, in parts of 6,000 tokens, and count the ones that are dropped.

    Args:
        llm: the model.
        channel: the channel.
        turns: its turns in the period, without deleted ones.
        model: the model's name.
        max_tokens: the size of the digest, which decides how many items are asked for.
        zone: the time zone of days such as "tomorrow".
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
    """The prompt that asks what happened in consecutive turns of a channel."""
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
    """The items that the cited turns support, and how many were dropped.

    An owner is removed from its item if the cited messages neither name them nor are written by them; a
    due date is removed if it cannot be parsed or is not in those messages.
    """
    kept, dropped = list[CatchupItem](), 0
    analysed_turns = analyse_turns(turns)
    usual = main_book(analysed_turns)
    for rank, item in enumerate(answer.items):
        numbers = list(dict.fromkeys(item.messages))
        if not numbers or not all(0 <= number < len(turns) for number in numbers):
            dropped += 1
            continue
        shown = " ".join(part for part in (item.text, item.owner, item.due) if part)
        cited = _informing([analysed_turns[number] for number in sorted(numbers)], shown)
        if not _contains(cited, item.text):
            dropped += 1
            continue
        first = cited[0].turn
        said = " ".join(f"{one.turn.author.name} {one.turn.text}" for one in cited).casefold()
        owner = item.owner if item.owner and item.owner.casefold() in said else None
        day = first.ts.astimezone(zone).date()
        due = None if not item.due else find_due(item.due, day, book_of(cited[0], usual))
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
    turns = [analysed.turn for analysed in cited]
    if unsupported_spans(text, turns, []):
        return False
    said = {stem for turn in turns for stem in _said(turn)}
    stated = _stated(cited[0].lexicon, text)
    return not stated or len(stated & said) >= _LEAST_SHARE * len(stated)


def _informing(cited: Sequence[AnalysedTurn], text: str) -> list[AnalysedTurn]:
    """The fewest messages with the words of the text, in order: each adds the most that are still missing."""
    missing, chosen = _stated(cited[0].lexicon, text), list[int]()
    while len(chosen) < _MOST_CITED:
        added = [len(missing & _said(one.turn)) for one in cited]
        best = added.index(max(added))
        if not added[best]:
            break
        chosen.append(best)
        missing -= _said(cited[best].turn)
    return [cited[place] for place in sorted(chosen)] or list(cited[:1])


def _stated(lexicon: Lexicon, text: str) -> set[str]:
    """The beginnings of a text's content words."""
    return {word.stem[:_PREFIX] for word in words(text) if lexicon.says_something(word)}


def _said(turn: Turn) -> set[str]:
    return {word.stem[:_PREFIX] for word in words(f"{turn.author.name} {turn.text}")}


def _parts(turns: Sequence[Turn]) -> list[list[Turn]]:
    parts, left = list[list[Turn]](), 0
    for turn in turns:
        if not parts or turn.tokens > left:
            parts.append([])
            left = _PART_TOKENS
        parts[-1].append(turn)
        left -= turn.tokens
    return parts
