"""Cues: the forms of words by which people decide, promise, ask, approve or report, in a language.

There is one `CueBook` per language, read from `cues/`. A cue decides nothing alone: a classifier weighs
all cues of a message and of the messages around it (`acts.classifier`). Its weights belong to the names
of the families, so what was learned from one language serves the others.

>>> sorted(cue_books()["en"].found("ok, then i'll send it tomorrow."))
['accepts', 'commits', 'concludes', 'times']
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType

from backscroll.operators.language.language_files import read_languages

__all__ = ["CueBook", "cue_books"]

FOLDER = Path(__file__).with_name("cues")


@dataclass(frozen=True, eq=False)
class CueBook:
    """The cues of one language, by family.

    A pattern is searched in lower-case text, as whole words unless `spaced` is false; `{verb}` in it stands
    for any of `verbs`, `NAME` for the name of somebody in the channel and `NUM` for a number.

    Attributes:
        code: ISO 639-1.
        verbs: verbs for things that somebody can do when asked.
        commits: the author will do something.
        offers: the author takes a task without naming it ("on it", "mine").
        intends: the author should, plans or wants to do something.
        hedges: an intention that binds nobody ("some day", "I might").
        informs: a promise to tell, or a wish to be told ("keep you posted").
        leaves: taking leave ("see you").
        supposes: what the author would do.
        accepts: the sentence starts with assent.
        requests: somebody is asked to do something.
        commands: the sentence starts with an imperative.
        proposes: the author proposes that the group does something.
        chairs: leading through a meeting.
        groups: what the group does or will do.
        keeps: a choice between ways ("we stick with").
        decides: words for decisions.
        declares: a decision that is called one ("we decided to"); it needs no other cue.
        approves: assent to a proposal.
        concludes: the sentence draws a conclusion ("ok then").
        drops: something is cancelled, moved or replaced.
        conditions: a condition.
        times: a time or a day.
        opinions: an opinion.
        past: something in the past.
        habits: something usual.
        done: something is finished.
        news: events and changes.
        findings: an explanation, a cause or advice.
        laughs: laughter.
        social: greetings, thanks and reactions that are the whole sentence.
        thanks: thanks.
        who: a question with a question word.
        whether: a question with a verb in front.
        anyone: everybody is addressed.
        you: the listener is addressed.
        wonders: asking for information or advice.
        tags: a question tag.
        phatic: questions that keep a talk going.
        spaced: whether words are separated by spaces.
    """

    code: str
    verbs: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    intends: tuple[str, ...] = ()
    hedges: tuple[str, ...] = ()
    informs: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    supposes: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    proposes: tuple[str, ...] = ()
    chairs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    decides: tuple[str, ...] = ()
    declares: tuple[str, ...] = ()
    approves: tuple[str, ...] = ()
    concludes: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    opinions: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    habits: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    news: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    laughs: tuple[str, ...] = ()
    social: tuple[str, ...] = ()
    thanks: tuple[str, ...] = ()
    who: tuple[str, ...] = ()
    whether: tuple[str, ...] = ()
    anyone: tuple[str, ...] = ()
    you: tuple[str, ...] = ()
    wonders: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    phatic: tuple[str, ...] = ()
    spaced: bool = True

    @cached_property
    def families(self) -> Mapping[str, re.Pattern[str]]:
        """The pattern of each family that has any."""
        verb = f"(?:{'|'.join(self.verbs) or '(?!)'})"
        found = {}
        for family in fields(self):
            phrases = getattr(self, family.name)
            if isinstance(phrases, tuple) and phrases and family.name != "verbs":
                body = "|".join(phrases).replace("{verb}", verb)
                whole = rf"(?<!\w)(?:{body})(?!\w)" if self.spaced else body
                found[family.name] = re.compile(whole)
        return MappingProxyType(found)

    def found(self, sentence: str) -> frozenset[str]:
        """The families with a cue in a sentence."""
        return frozenset(name for name, pattern in self.families.items() if pattern.search(sentence))


@cache
def cue_books() -> Mapping[str, CueBook]:
    """The cue books by ISO 639-1 code; read once.

    Raises:
        LanguageFileError: a file is invalid.
    """
    return MappingProxyType({book.code: book for book in read_languages(FOLDER, CueBook)})
