"""Catch-up items found without a language model: decisions, actions, open questions and what else to tell.

An item is one or a few verbatim sentences of a message that does something (`acts.classifier`): one that
probably decides, takes on a task or asks what nobody has answered. The owner of an action is whoever
promises it or is asked to do it. What is unlikely is left out: an empty section is better than guesses.
Messages from bots are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from types import MappingProxyType
from typing import Literal, TypeAlias

from backscroll.operators.acts.classifier import Acts
from backscroll.operators.acts.reading import ReadSentence
from backscroll.operators.catchup.due_dates import Due, find_due
from backscroll.operators.catchup.people import Person, addressed
from backscroll.operators.language.chat_language import book_of, main_book
from backscroll.operators.language.phrasebook import PhraseBook
from backscroll.operators.language.sentences import sentences, shortened, with_neighbours
from backscroll.operators.messages import Turn

__all__ = ["ANSWERS", "LEAST", "CatchupItem", "Kind", "asked_of", "find_highlights", "find_items", "quoted"]

Kind: TypeAlias = Literal["decision", "action", "question", "highlight", "mention", "reply"]
Act: TypeAlias = Literal["decision", "action", "question"]
LEAST: Mapping[Act, float] = MappingProxyType({"decision": 0.4, "action": 0.4, "question": 0.35})
"""The lowest probability at which an act is shown."""
_OTHER_LANGUAGES = 0.6
"""What part of it suffices in other languages than English: few of their words were learned."""
_EXPLICIT: Mapping[str, Act] = MappingProxyType(
    {"declares": "decision", "recorded_decision": "decision", "recorded_action": "action"}
)
ANSWERS = 0.5
"""The lowest probability at which a message counts as the answer to a question."""
_CONTENT = 2  # words with content
_QUOTE = 100  # characters; a quote is extended to neighbouring sentences up to this length
_LONGEST = 240


@dataclass(frozen=True, slots=True)
class CatchupItem:
    """An item: its kind, its turn, its verbatim text, and a score in [0, 2] for its importance.

    `owner` is who has to act and `due` by when. `asks` is true for a question, even if the item is an
    action (`can you ...?`). `also` holds the further messages that the line cites: the question that it
    answers, or those of a model's text.
    """

    kind: Kind
    turn: Turn
    text: str
    score: float
    owner: str | None = None
    due: Due | None = None
    asks: bool = False
    also: tuple[Turn, ...] = ()


def find_items(
    acts: Sequence[Acts], people: Sequence[Person], zone: tzinfo, *, first: int = 0
) -> list[CatchupItem]:
    """The decisions, actions and open questions among consecutive messages, in order, one per message.

    Args:
        acts: what the messages do.
        people: who may be addressed.
        zone: the time zone of days such as "tomorrow".
        first: the place of the first message that items may be about.
    """
    found = []
    usual = main_book([one.message.analysed for one in acts])
    for one in acts[first:]:
        english = one.message.analysed.lexicon.code == "en"
        share = 1.0 if english else _OTHER_LANGUAGES
        likely = {kind: one.probabilities[kind] / (share * least) for kind, least in LEAST.items()}
        for cue, kind in _EXPLICIT.items():
            if cue in one.message.cues and not one.message.asks:
                likely[kind] = max(likely[kind], 1.0)
        if one.answered(ANSWERS):
            del likely["question"]
        kind = max(likely, key=likely.__getitem__)
        if likely[kind] >= 1 and _says_something(one) and not one.message.turn.author.bot:
            found.append(_item(one, kind, acts, people, zone=zone, usual=usual))
    return found


def _says_something(one: Acts) -> bool:
    """Whether a message has words of its own: a vote such as `+1` is no line."""
    analysed = one.message.analysed
    return len(analysed.content) >= (_CONTENT if analysed.lexicon.spaced else 1)


def _item(
    one: Acts,
    kind: Act,
    acts: Sequence[Acts],
    people: Sequence[Person],
    *,
    zone: tzinfo,
    usual: PhraseBook,
) -> CatchupItem:
    message, turn = one.message, one.message.turn
    sentence = message.sentences[one.best_sentence(kind)]
    text = quoted(turn.text, sentence.start, sentence.end)
    said = message.analysed.text[sentence.start : sentence.end]
    score = one.probabilities[kind]
    if kind != "action":
        return CatchupItem(kind, turn, text, score, asks=kind == "question")
    book = book_of(message.analysed, usual)
    day = turn.ts.astimezone(zone).date()
    stated = " ".join(
        message.analysed.text[part.start : part.end] for part in message.sentences if not part.asks
    )
    due = find_due(said, day, book) or find_due(stated, day, book)
    owner = _owner(one, sentence, acts, people, book)
    return CatchupItem("action", turn, text, score, owner, due, sentence.asks)


def asked_of(one: Acts, person: Person, zone: tzinfo, usual: PhraseBook) -> CatchupItem | None:
    """What a message asks a person by name to do; None if it asks nothing of them."""
    message, turn = one.message, one.message.turn
    for sentence in message.sentences:
        said = message.analysed.text[sentence.start : sentence.end]
        if {"requests", "commands"} & sentence.cues and addressed(said, [person]) is not None:
            due = find_due(said, turn.ts.astimezone(zone).date(), book_of(message.analysed, usual))
            text = quoted(turn.text, sentence.start, sentence.end)
            score = one.probabilities["action"]
            return CatchupItem("action", turn, text, score, person.name, due, sentence.asks)
    return None


def _owner(
    one: Acts, sentence: ReadSentence, acts: Sequence[Acts], people: Sequence[Person], book: PhraseBook
) -> str | None:
    """Who has to act: whoever is asked or named, whoever accepts a request, or the author."""
    author = one.message.turn.author
    said = one.message.analysed.text[sentence.start : sentence.end]
    to = addressed(said, [person for person in people if not person.wrote(author)])
    asked = bool({"requests", "commands"} & sentence.cues) or sentence.asks
    if asked and to is not None:
        return to.name
    if not {"commits", "offers"} & sentence.cues:
        if (named := _named_owner(said, people, book)) is not None:
            return named
        if asked:
            taken = [acts[answer.place].message for answer in one.answers if answer.probability >= ANSWERS]
            accepting = [other for other in taken if {"accepts", "commits", "offers"} & other.cues]
            return accepting[0].turn.author.name if accepting else None
    return author.name


def find_highlights(acts: Sequence[Acts], *, first: int = 0) -> list[CatchupItem]:
    """Every message as a line, scored by how likely it is worth telling.

    A question and its answer are one line, that of the answer, which cites both. A question without an
    answer is not a highlight.
    """
    asked = {one.answers[0].place: one for one in acts if one.answered(ANSWERS)}
    found = dict[str, CatchupItem]()
    for place, one in enumerate(acts):
        if place < first or one.message.turn.author.bot or not one.message.sentences:
            continue
        told, question = one, asked.get(place)
        if _only_asks(one):
            if not one.answered(ANSWERS):
                continue
            told, question = acts[one.answers[0].place], one
        item = _highlight(told, question, one.probabilities["point"])
        if item.turn.id not in found or found[item.turn.id].score < item.score:
            found[item.turn.id] = item
    return sorted(found.values(), key=lambda item: (-item.score, item.turn.seq))


def _only_asks(one: Acts) -> bool:
    return all(sentence.asks for sentence in one.message.sentences)


def _highlight(told: Acts, question: Acts | None, score: float) -> CatchupItem:
    turn = told.message.turn
    sentence = told.message.sentences[told.best_sentence("point")]
    also = () if question is None else (question.message.turn,)
    return CatchupItem("highlight", turn, quoted(turn.text, sentence.start, sentence.end), score, also=also)


def quoted(text: str, start: int, end: int) -> str:
    """The sentence at `start:end`, with its neighbours while the quote stays short, on one line."""
    spans = [span for span in sentences(text) if span[1] > span[0]]
    at = [place for place, span in enumerate(spans) if span[1] > start and span[0] < end]
    if not at:
        return shortened(text[start:end], _LONGEST)
    start, end = with_neighbours(spans, at[0], at[-1], _QUOTE)
    return shortened(text[start:end], _LONGEST)


def _named_owner(sentence: str, people: Sequence[Person], book: PhraseBook) -> str | None:
    """The person an action is assigned to, as in `Ana owns it` or `Ana will send it`."""
    lowered = sentence.lower()
    for person in people:
        for name in person.names:
            if any(f"{name.lower()} {phrase}" in lowered for phrase in book.assigned):
                return person.name
    return None
