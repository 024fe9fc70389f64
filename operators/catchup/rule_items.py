"""Catch-up items found by rules: decisions, actions and open questions.

An item is one or a few verbatim sentences of a message. Phrases of its language decide its kind
(`language.phrasebook`). The owner of an action is whoever promises it or is asked to do it. Messages
from bots are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo
from functools import cache
from typing import Literal, TypeAlias

from backscroll.operators.catchup.due_dates import Due, find_due
from backscroll.operators.catchup.people import Person, addressed
from backscroll.operators.language.phrasebook import PhraseBook, phrase_books
from backscroll.operators.language.salience import AnalysedTurn
from backscroll.operators.language.sentences import sentences
from backscroll.operators.messages import Turn

__all__ = ["CatchupItem", "Kind", "asks", "book_of", "find_items", "main_book", "quoted", "shortened"]

Kind: TypeAlias = Literal["decision", "action", "question", "highlight", "mention", "reply"]
_QUOTE = 220  # characters; a quote is extended to neighbouring sentences up to this length
_LONGEST = 320
_CONTENT = 2  # content words a question must have
_AT_ONCE = timedelta(minutes=5)
_ANSWERED_WITHIN, _TAKEN_UP_WITHIN = timedelta(minutes=20), timedelta(days=1)
_ANSWERS_NEAR = 3  # messages after a question that may answer it without being a reply


@dataclass(frozen=True, slots=True)
class CatchupItem:
    """An item: its kind, its turn, its verbatim text, and a score in [0, 2] for its importance.

    `owner` is who has to act and `due` by when. `asks` is true for a question, even if the item is an
    action (`can you ...?`), and `to` is the person addressed. `also` holds the further messages that a
    model's text cites.
    """

    kind: Kind
    turn: Turn
    text: str
    score: float
    owner: str | None = None
    due: Due | None = None
    asks: bool = False
    to: Person | None = None
    also: tuple[Turn, ...] = ()


def book_of(analysed: AnalysedTurn) -> PhraseBook:
    """The phrase book for the language of a message; English if there is none."""
    return phrase_books().get(analysed.lexicon.code) or phrase_books()["en"]


def main_book(analysed_turns: Sequence[AnalysedTurn]) -> PhraseBook:
    """The phrase book for the language with the most words."""
    words = Counter[PhraseBook]()
    for analysed in analysed_turns:
        words[book_of(analysed)] += len(analysed.words)
    return words.most_common(1)[0][0] if words else phrase_books()["en"]


def find_items(
    analysed_turns: Sequence[AnalysedTurn], people: Sequence[Person], zone: tzinfo
) -> list[CatchupItem]:
    """The items of consecutive messages, in order, at most one per message.

    Args:
        analysed_turns: the messages, analysed.
        people: who may be addressed.
        zone: the time zone of days such as "tomorrow".
    """
    found = []
    for place, analysed in enumerate(analysed_turns):
        if analysed.turn.author.bot:
            continue
        items = list(_of_sentences(analysed, people, zone))
        best = min(
            (item for item in items if not _is_over(analysed_turns, place, item)), key=_rank, default=None
        )
        if best is not None:
            found.append(best)
    return found


def quoted(text: str, start: int, end: int) -> str:
    """The sentence at `start:end`, with its neighbours while the quote stays short, on one line."""
    spans = [span for span in sentences(text) if span[1] > span[0]]
    at = [place for place, span in enumerate(spans) if span[1] > start and span[0] < end]
    if not at:
        return shortened(text[start:end], _LONGEST)
    first, last = at[0], at[-1]
    while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= _QUOTE:
        last += 1
    while first > 0 and spans[last][1] - spans[first - 1][0] <= _QUOTE:
        first -= 1
    return shortened(text[spans[first][0] : spans[last][1]], _LONGEST)


def shortened(text: str, characters: int) -> str:
    """A text on one line, cut at a word and ended with an ellipsis if it is longer than `characters`."""
    line = " ".join(text.split())
    if len(line) <= characters:
        return line
    head = line[:characters]
    return (head.rsplit(" ", 1)[0] if " " in head[characters // 2 :] else head) + " …"


def _of_sentences(analysed: AnalysedTurn, people: Sequence[Person], zone: tzinfo) -> Iterator[CatchupItem]:
    book, turn = book_of(analysed), analysed.turn
    others = [person for person in people if not person.wrote(turn.author)]
    said = turn.ts.astimezone(zone).date()
    spans = sentences(analysed.text)
    parts = [analysed.text[start:end] for start, end in spans]
    stated = " ".join(part for part in parts if not asks(part))
    for (start, end), sentence in zip(spans, parts, strict=True):
        is_question = asks(sentence)
        text = quoted(turn.text, start, end)
        to = addressed(sentence, others)
        if not is_question and book.decision.search(sentence):
            yield CatchupItem("decision", turn, text, analysed.salience + 0.3, asks=is_question, to=to)
        owner = None
        is_request = book.request.search(sentence) is not None
        if is_request or (to is not None and not is_question and _commands(analysed, sentence, start, to)):
            owner = None if to is None else to.name
        elif not is_question and book.promise.search(sentence):
            owner = turn.author.name
        else:
            owner = _named_owner(sentence, people, book)
        if owner is not None or is_request:
            due = find_due(sentence, said, book) or find_due(stated, said, book)
            score = analysed.salience + (0.2 if owner is not None else -0.2) + 0.2 * (due is not None)
            yield CatchupItem("action", turn, text, score, owner, due, is_question, to)
        elif is_question and not book.rhetoric.fullmatch(sentence.strip()):
            says = sum(start <= word.start < end for word in analysed.content)
            if says >= (_CONTENT if book.spaced else 1):
                yield CatchupItem("question", turn, text, analysed.salience, asks=True, to=to)


def asks(sentence: str) -> bool:
    """Whether a sentence ends like a question."""
    tail = sentence.rstrip(" \t\"'”»)😀😂🙂:")
    return tail.endswith(("?", "？", "؟")) or tail.rstrip("。").endswith(_question_ends())


@cache
def _question_ends() -> tuple[str, ...]:
    return tuple(end for book in phrase_books().values() for end in book.question_ends)


def _commands(analysed: AnalysedTurn, sentence: str, start: int, to: Person) -> bool:
    """Whether a name at the start is followed by an imperative: not a function word, not a number."""
    after = [word for word in analysed.words if start <= word.start < start + len(sentence)]
    called = {part.casefold() for name in to.names for part in name.split()}
    rest = [word for word in after if word.lower not in called]
    if not rest or after[0].lower not in called or not rest[0].text[0].isalpha():
        return False
    return rest[0].lower not in analysed.lexicon.function and len(rest) >= 3 and analysed.lexicon.spaced


def _named_owner(sentence: str, people: Sequence[Person], book: PhraseBook) -> str | None:
    """The person an action is assigned to, as in `Ana owns it` or `Ana will send it`."""
    lowered = sentence.lower()
    for person in people:
        for name in person.names:
            if any(f"{name.lower()} {phrase}" in lowered for phrase in book.assigned):
                return person.name
    return None


def _rank(item: CatchupItem) -> int:
    """Decisions first, then actions with an owner, questions, and requests to nobody in particular."""
    if item.kind == "action":
        return 1 if item.owner is not None else 3
    return 0 if item.kind == "decision" else 2


def _is_over(analysed_turns: Sequence[AnalysedTurn], place: int, item: CatchupItem) -> bool:
    return item.kind == "question" and _is_answered(analysed_turns, place, item)


def _is_answered(analysed_turns: Sequence[AnalysedTurn], place: int, question: CatchupItem) -> bool:
    """Whether somebody else replied to a question, or soon said something that seems to answer it."""
    asked, turn = analysed_turns[place], question.turn
    stems = {word.stem for word in asked.content}
    near = 0
    for later in analysed_turns[place + 1 :]:
        if later.turn.author.id == turn.author.id or later.turn.author.bot:
            continue
        if turn.id in (later.turn.reply_to, later.turn.thread):
            return True
        if turn.thread is not None and later.turn.thread == turn.thread:
            return True
        near += 1
        after = later.turn.ts - turn.ts
        if near > _ANSWERS_NEAR or after > _TAKEN_UP_WITHIN:
            continue
        if question.to is not None and question.to.wrote(later.turn.author):
            return True
        if asks(later.text):
            continue
        begins = later.cues[0] if later.cues else None
        opens = begins is not None and begins.family in ("answers", "social") and begins.start == 0
        soon = (near == 1 and after <= _AT_ONCE) or (opens and after <= _ANSWERED_WITHIN)
        if soon or stems & {word.stem for word in later.content}:
            return True
    return False
