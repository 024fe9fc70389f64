"""What a reader who was away has to know, found by rules: decisions, actions, open questions.

An item is one or a few verbatim sentences of a message. Its kind is told by the phrases of its
language (`language.phrasebook`), the owner of an action by who promises it or whom it speaks to.
Messages of bots make no items.
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


_QUOTE = 220  # characters of a message that are quoted, if it has that many


_LONGEST = 320


_CONTENT = 2  # words that say something in a question worth asking


_AT_ONCE = timedelta(minutes=5)


_ANSWERED_WITHIN, _TAKEN_UP_WITHIN = timedelta(minutes=20), timedelta(days=1)


_ANSWERS_NEAR = 3  # messages after a question in which an answer without a reply is looked for


@dataclass(frozen=True, slots=True)
class CatchupItem:
    """An item: its kind, the turn, its verbatim words, and how much it deserves a place, in [0, 2].

    `owner` is who has to act, `due` until when. `asks` says that it is a question, also where it is
    an action (`can you ...?`), and `to` whom its sentence speaks to. `also` are further messages that
    it rests on, where a model wrote its text.
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


def book_of(reading: AnalysedTurn) -> PhraseBook:
    """The phrase book of the language that a message is read in."""
    return phrase_books().get(reading.lexicon.code) or phrase_books()["en"]


def main_book(readings: Sequence[AnalysedTurn]) -> PhraseBook:
    """The phrase book of the language that most words were written in."""
    words = Counter[PhraseBook]()
    for reading in readings:
        words[book_of(reading)] += len(reading.words)
    return words.most_common(1)[0][0] if words else phrase_books()["en"]


def find_items(readings: Sequence[AnalysedTurn], people: Sequence[Person], zone: tzinfo) -> list[CatchupItem]:
    """The items of consecutive messages, at most one each, in their order.

    Args:
        readings: the messages, as the rules read them.
        people: who may be addressed.
        zone: the time zone in which "tomorrow" is meant.
    """
    found = []
    for place, reading in enumerate(readings):
        if reading.turn.author.bot:
            continue
        items = list(_of_sentences(reading, people, zone))
        best = min((item for item in items if not _is_over(readings, place, item)), key=_rank, default=None)
        if best is not None:
            found.append(best)
    return found


def quoted(text: str, start: int, end: int) -> str:
    """The sentence at `start:end` and, while it stays short, those after and before it; one line."""
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
    """A text in one line; the beginning of a longer one, up to a word, ends in an ellipsis."""
    line = " ".join(text.split())
    if len(line) <= characters:
        return line
    head = line[:characters]
    return (head.rsplit(" ", 1)[0] if " " in head[characters // 2 :] else head) + " …"


def _of_sentences(reading: AnalysedTurn, people: Sequence[Person], zone: tzinfo) -> Iterator[CatchupItem]:
    book, turn = book_of(reading), reading.turn
    others = [person for person in people if not person.wrote(turn.author)]
    said = turn.ts.astimezone(zone).date()
    spans = sentences(reading.text)
    parts = [reading.text[start:end] for start, end in spans]
    stated = " ".join(part for part in parts if not asks(part))
    for (start, end), sentence in zip(spans, parts, strict=True):
        is_question = asks(sentence)
        text = quoted(turn.text, start, end)
        to = addressed(sentence, others)
        if not is_question and book.decision.search(sentence):
            yield CatchupItem("decision", turn, text, reading.salience + 0.3, asks=is_question, to=to)
        owner = None
        is_request = book.request.search(sentence) is not None
        if is_request or (to is not None and not is_question and _commands(reading, sentence, start, to)):
            owner = None if to is None else to.name
        elif not is_question and book.promise.search(sentence):
            owner = turn.author.name
        else:
            owner = _named_owner(sentence, people, book)
        if owner is not None or is_request:
            due = find_due(sentence, said, book) or find_due(stated, said, book)
            score = reading.salience + (0.2 if owner is not None else -0.2) + 0.2 * (due is not None)
            yield CatchupItem("action", turn, text, score, owner, due, is_question, to)
        elif is_question and not book.rhetoric.fullmatch(sentence.strip()):
            says = sum(start <= word.start < end for word in reading.content)
            if says >= (_CONTENT if book.spaced else 1):
                yield CatchupItem("question", turn, text, reading.salience, asks=True, to=to)


def asks(sentence: str) -> bool:
    """Whether a sentence ends as a question does."""
    tail = sentence.rstrip(" \t\"'”»)😀😂🙂:")
    return tail.endswith(("?", "？", "؟")) or tail.rstrip("。").endswith(_question_ends())


@cache
def _question_ends() -> tuple[str, ...]:
    return tuple(end for book in phrase_books().values() for end in book.question_ends)


def _commands(reading: AnalysedTurn, sentence: str, start: int, to: Person) -> bool:
    """Whether what follows a name at the beginning is an imperative: no function word, no figure."""
    after = [word for word in reading.words if start <= word.start < start + len(sentence)]
    called = {part.casefold() for name in to.names for part in name.split()}
    rest = [word for word in after if word.lower not in called]
    if not rest or after[0].lower not in called or not rest[0].text[0].isalpha():
        return False
    return rest[0].lower not in reading.lexicon.function and len(rest) >= 3 and reading.lexicon.spaced


def _named_owner(sentence: str, people: Sequence[Person], book: PhraseBook) -> str | None:
    """Who is said to have it: `Ana owns it`, `Ana will send it`."""
    lowered = sentence.lower()
    for person in people:
        for name in person.names:
            if any(f"{name.lower()} {phrase}" in lowered for phrase in book.assigned):
                return person.name
    return None


def _rank(item: CatchupItem) -> int:
    """Decisions first, then what somebody has to do, questions, and requests to nobody named."""
    if item.kind == "action":
        return 1 if item.owner is not None else 3
    return 0 if item.kind == "decision" else 2


def _is_over(readings: Sequence[AnalysedTurn], place: int, item: CatchupItem) -> bool:
    return item.kind == "question" and _is_answered(readings, place, item)


def _is_answered(readings: Sequence[AnalysedTurn], place: int, question: CatchupItem) -> bool:
    """Whether somebody else replied to a question, or soon after said something that takes it up."""
    asked, turn = readings[place], question.turn
    stems = {word.stem for word in asked.content}
    near = 0
    for later in readings[place + 1 :]:
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
