"""Compare the lines of cards with LexRank: which of them quote what a returning reader needs?

    pip install sumy
    PYTHONPATH=tests python -m support.lexrank ANNOTATIONS... --dialogues FOLDER... [--acts FOLDER]

For every window of an annotated absence the card's text is written without explanations, and LexRank (of
`sumy`) chooses sentences of the same messages, written as lines of the same form, until they have as many
tokens. A point of the absence is found if a window's text quotes a sentence of one of its messages. `--acts`
holds weights that were trained without each dialogue (`training.acts.train --leave-out`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest.mock import patch

import click

from backscroll.benchmarks.absences.annotations import Absence, read_absences
from backscroll.benchmarks.data.dialogues import Dialogue, record_dialogue
from backscroll.operators.acts.classifier import ActModel
from backscroll.operators.language.lexicon import lexicons
from backscroll.operators.language.sentences import sentences
from backscroll.operators.language.tokens import count
from backscroll.operators.messages import Turn
from backscroll.operators.summary.extractive import ExtractiveSummarizer

LEAST_SENTENCE = 8  # characters


class Words:
    """Splits text for sumy."""

    def to_words(self, text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())


def said(turn: Turn) -> list[str]:
    """The sentences of a message, each on one line."""
    return [" ".join(turn.text[start:end].split()) for start, end in sentences(turn.text) or ()]


def by_card(turns: Sequence[Turn]) -> tuple[set[str], int]:
    """The messages that a card without explanations quotes, and its tokens."""
    text = ExtractiveSummarizer().summarize(turns, (), {})
    line = " ".join(text.split())
    quoted = {turn.id for turn in turns for one in said(turn) if len(one) >= LEAST_SENTENCE and one in line}
    return quoted, count(text + "\n")


def by_lexrank(turns: Sequence[Turn], tokens: int) -> set[str]:
    """The messages of the sentences that LexRank ranks highest, as many as fit."""
    from sumy.models.dom import ObjectDocumentModel, Paragraph, Sentence
    from sumy.summarizers.lex_rank import LexRankSummarizer

    candidates = [(turn, one) for turn in turns for one in said(turn) if re.search(r"\w", one)]
    if not candidates:
        return set()
    ranking = LexRankSummarizer()
    ranking.stop_words = lexicons()["en"].function
    spoken = [Sentence(one, Words()) for _, one in candidates]
    document = ObjectDocumentModel([Paragraph(spoken)])
    chosen = set[str]()
    for number in range(1, len(spoken) + 1):
        best = {id(one) for one in ranking(document, number)}
        said_by = [pair for pair, one in zip(candidates, spoken, strict=True) if id(one) in best]
        if sum(count(f"{turn.ts:%H:%M} {turn.author.name}: {one}\n") for turn, one in said_by) > tokens:
            break
        chosen = {turn.id for turn, _ in said_by}
    return chosen


def windows(absence: Absence, dialogue: Dialogue) -> Iterable[list[Turn]]:
    """The messages of the absence, by window."""
    ids = [turn.id for turn in dialogue.turns]
    inside = set(ids[ids.index(absence.first) : ids.index(absence.last) + 1])
    parts = [[turn for turn in window.turns if turn.id in inside] for window in dialogue.windows]
    return [part for part in parts if part]


@contextmanager
def using(model: ActModel | None) -> Iterator[None]:
    """Use a model in place of the packaged one, if there is one."""
    if model is None:
        yield
    else:
        with patch.object(ActModel, "shipped", lambda **_: model):
            yield


@click.command()
@click.argument("annotations", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--dialogues", multiple=True, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--acts", type=click.Path(path_type=Path, exists=True))
def main(annotations: Sequence[Path], dialogues: Sequence[Path], acts: Path | None) -> None:
    """Print the share of weighted points that cards and LexRank quote, file by file."""
    recorded = cache(lambda path: record_dialogue(path, None))
    weight = found = ranked = 0
    for file in annotations:
        before = weight, found, ranked
        for absence in read_absences(file):
            path = next(one for folder in dialogues if (one := folder / f"{absence.dialogue}.jsonl").exists())
            model = None if acts is None else ActModel.read(acts / f"{absence.dialogue}.json", vectors=False)
            parts = windows(absence, recorded(path))
            with using(model):
                cards = [by_card(part) for part in parts]
            quoted = set[str]().union(*(ids for ids, _ in cards))
            other = set[str]().union(
                *(by_lexrank(part, tokens) for part, (_, tokens) in zip(parts, cards, strict=True))
            )
            weight += sum(point.weight for point in absence.points)
            found += sum(point.weight for point in absence.points if point.ids & quoted)
            ranked += sum(point.weight for point in absence.points if point.ids & other)
        part, of_cards, of_lexrank = (
            now - then for now, then in zip((weight, found, ranked), before, strict=True)
        )
        click.echo(f"{file.name}: cards {of_cards / part:.3f}, LexRank {of_lexrank / part:.3f} of {part}")
    click.echo(f"all: cards {found / weight:.3f}, LexRank {ranked / weight:.3f} of {weight}")


if __name__ == "__main__":
    main()
