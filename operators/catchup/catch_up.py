"""Catch-ups: what happened in a channel while the user was away, as one digest of cited lines.

What concerns the user comes first: questions to them, actions they own, mentions, and replies to them.
Then come decisions, actions with owner and date, open questions, and highlights. Every line quotes
messages verbatim, cites them, and is followed by the earlier messages that explain it. If the store
has a summary of a window, its evidence is used, and its text too if a model wrote it; for other windows
the evidence is retrieved. The headings are in the language most used in the channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.acts.classifier import ActModel, Acts, find_acts
from backscroll.operators.acts.reading import read_messages
from backscroll.operators.catchup.act_items import (
    CatchupItem,
    find_highlights,
    find_items,
    quoted,
)
from backscroll.operators.catchup.context import ContextFinder, EarlierMessage, from_record, from_threads
from backscroll.operators.catchup.digest import (
    SECTIONS,
    Advice,
    ChannelDigest,
    ChannelRead,
    DigestItem,
    LeftOut,
    Suggested,
    line,
)
from backscroll.operators.catchup.for_me import ForMe
from backscroll.operators.catchup.people import Person
from backscroll.operators.catchup.period import Period
from backscroll.operators.history.offline import cut_turns
from backscroll.operators.language.chat_language import main_book
from backscroll.operators.language.salience import analyse_turns
from backscroll.operators.language.sentences import sentences, shortened
from backscroll.operators.language.tokens import count
from backscroll.operators.messages import ChannelKey, Turn
from backscroll.operators.stream.windows import Window, WindowCutter
from backscroll.operators.summary.record import Summary

__all__ = ["Embed", "catch_up", "in_span"]

_SHARES = {"for_me": 0.45, "decisions": 0.4, "actions": 0.4, "questions": 0.35, "highlights": 1.0}
_KEPT = 0.1  # of the tokens, for highlights
_LEAST_LINE = 8  # tokens
Embed: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]
_OF_KIND = {"decision": "decisions", "action": "actions", "question": "questions", "highlight": "highlights"}
_LEAST_TOKENS = 60  # per channel
_LEAST_POINT, _LEAST_SALIENCE = 0.08, 0.25  # a highlight reaches one of them
_LEANING = frozenset({"things", "people", "connects", "answers", "decides"})
_OPENING = 12  # characters
_ASKED = 100  # characters of a question that a line answers
_MOST_EMBEDDED = 2_000  # messages of a channel; more would take too long
_BEFORE = 12  # messages before the period, which those in it may answer


def catch_up(
    channels: Iterable[ChannelRead],
    spans: Period,
    *,
    recalling: ContextFinder,
    me: Person | None = None,
    max_tokens: int = 400,
    zone: tzinfo,
    cutter: WindowCutter | None = None,
    suggested: Mapping[ChannelKey, Suggested] | None = None,
    embed: Embed | None = None,
    acts: ActModel | None = None,
) -> list[ChannelDigest]:
    """The digests of the channels with messages in the period, busiest first.

    Args:
        channels: the channels and their turns.
        spans: the period the user has missed.
        recalling: finds evidence where no summary has it.
        me: the user.
        max_tokens: the limit for the words of all lines. Each channel gets a share in proportion to its
            messages, but at least 60.
        zone: the time zone of days such as "tomorrow".
        cutter: cuts the turns that are in no window yet.
        suggested: items that a model found, by channel; rules find the items of the other channels.
        embed: embeds messages with the packaged embedding model, which finds more; None does without.
        acts: tells what messages do; the packaged model by default.
    """
    missed = {channel.key: (channel, in_span(channel, spans)) for channel in channels}
    missed = {key: found for key, found in missed.items() if any(not turn.deleted for turn in found[1])}
    total = sum(len(turns) for _, turns in missed.values())
    digests = []
    for channel, turns in missed.values():
        tokens = max(_LEAST_TOKENS, max_tokens * len(turns) // total) if len(missed) > 1 else max_tokens
        model = (suggested or {}).get(channel.key)
        builder = _DigestBuilder(
            channel, turns, me, zone, recalling, cutter or WindowCutter(), model, embed, acts
        )
        digests.append(builder.digest(tokens))
    return sorted(digests, key=lambda digest: (-digest.messages, str(digest.key)))


def in_span(channel: ChannelRead, spans: Period) -> list[Turn]:
    """The turns of a channel that are in the period, including deleted ones."""
    return [turn for turn in channel.turns if spans.holds(channel.key, turn)]


@dataclass
class _DigestBuilder:
    """Builds the digest of one channel."""

    channel: ChannelRead
    inside: Sequence[Turn]
    me: Person | None
    zone: tzinfo
    recalling: ContextFinder
    cutter: WindowCutter
    model: Suggested | None
    embed: Embed | None
    act_model: ActModel | None
    _recalled: dict[int, Mapping[str, EarlierMessage]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_rules = self.model is None or self.model.degraded is not None
        self.live = [turn for turn in self.inside if not turn.deleted]
        self.known = {turn.id: turn for turn in self.channel.turns if not turn.deleted}
        self.acts, self.first = self._acts()
        self.analysed_turns = [one.message.analysed for one in self.acts[self.first :]]
        self.book = main_book(self.analysed_turns)
        self.threads = from_threads(self.analysed_turns, self.known)
        self.parts = list(self._windows())
        self.part_of = {turn.id: place for place, part in enumerate(self.parts) for turn in part.turns}
        self.records = {place: self._record(part) for place, part in enumerate(self.parts)}

    def digest(self, tokens: int) -> ChannelDigest:
        """The digest, with lines of at most `tokens` in all."""
        reused = sum(record is not None for record in self.records.values())
        candidates = self._candidates()
        single = self.live[0] if len(self.live) == 1 else None
        chosen = {} if single is not None else self._choose(candidates, tokens)
        cited = {turn.id for items in chosen.values() for item in items for turn in item.messages}
        shown = sum(len(items) for name, items in chosen.items() if name != "highlights")
        found = sum(len(items) for name, items in candidates.items() if name != "highlights")
        bots = [turn for turn in self.live if turn.author.bot and turn.id not in cited]
        unmentioned = [turn for turn in self.live if turn.id not in cited and not turn.author.bot]
        model = self.model or Suggested()
        return ChannelDigest(
            key=self.channel.key,
            book=self.book,
            advice=self._advice(candidates),
            messages=len(self.live),
            people=tuple(dict.fromkeys(turn.author.name for turn in self.live if not turn.author.bot)),
            first=min(self.live, key=lambda turn: (turn.ts, turn.seq)),
            last=max(self.live, key=lambda turn: (turn.ts, turn.seq)),
            sections=chosen,
            left_out=LeftOut(
                bots=0 if single is not None else len(bots),
                deleted=len(self.inside) - len(self.live),
                unmentioned=0 if single is not None else len(unmentioned),
                items=0 if single is not None else found - shown,
                dropped=model.dropped,
            ),
            quoted=single,
            reused=reused,
            provisional=len(self.parts) - reused,
            degraded=model.degraded,
        )

    def _acts(self) -> tuple[list[Acts], int]:
        """What the messages of the period and the few before it do, and the place of the period's first."""
        start = self.live[0].seq if self.live else 0
        earlier = [turn for turn in self.known.values() if turn.seq < start][-_BEFORE:]
        turns = [*earlier, *self.live]
        names = {turn.author.name for turn in self.known.values() if not turn.author.bot}
        read = read_messages(analyse_turns(turns), names)
        embeds = self.embed if len(turns) <= _MOST_EMBEDDED else None
        vectors = None if embeds is None else embeds([turn.text for turn in turns])
        return find_acts(read, vectors, self.act_model), len(earlier)

    def _windows(self) -> Iterator[Window]:
        """The period as windows: the part of each closed window in the period, then the open turns as cut."""
        history = self.channel.history
        inside = dict[int, list[Turn]]()
        beyond = list[Turn]()
        for turn in self.live:
            if turn.seq < history.recorded_until:
                inside.setdefault(history.window_of(turn.seq).index, []).append(turn)
            else:
                beyond.append(turn)
        for index, turns in inside.items():
            yield Window(history.windows[index], tuple(turns))
        yield from cut_turns(beyond, history, self.cutter)

    def _record(self, part: Window) -> Summary | None:
        """The finished summary of a window, if the whole window is in the period."""
        ref = part.ref
        if ref.last_seq >= self.channel.history.recorded_until:
            return None
        whole = [turn for turn in self.channel.history.turns(ref.first_seq, ref.last_seq) if not turn.deleted]
        return self.channel.record(ref) if whole == list(part.turns) else None

    def _candidates(self) -> dict[str, list[CatchupItem]]:
        """The candidate items by section, best first."""
        by_id = self._found()
        highlights = {item.turn.id: item for item in find_highlights(self.acts, first=self.first)}
        for_me = self._for_me()
        sections: dict[str, list[CatchupItem]] = {name: [] for name in SECTIONS}
        for one in self.acts[self.first :]:
            turn = one.message.turn
            found = by_id.get(turn.id)
            mine = None if for_me is None else for_me.item(one, found)
            if mine is not None:
                sections["for_me"].append(mine)
            elif found is not None:
                sections[_OF_KIND[found.kind]].append(found)
            elif self.by_rules and turn.id in highlights:
                item, salience = highlights[turn.id], one.message.analysed.salience
                if item.score >= _LEAST_POINT or salience >= _LEAST_SALIENCE:
                    sections["highlights"].append(item)
        for items in sections.values():
            items.sort(key=lambda item: (-item.score, item.turn.seq))
        if not any(sections.values()):  # only greetings or bots: still show something
            sections["highlights"] = [self._anything()]
        return sections

    def _for_me(self) -> ForMe | None:
        """Tells what concerns the user; None if nobody is named."""
        if self.me is None:
            return None
        return ForMe(
            me=self.me,
            acts=self.acts,
            known=self.known,
            period=self.part_of.keys(),
            threads=self.threads,
            alone=len({turn.author.id for turn in self.known.values()}) == 2,
            zone=self.zone,
            book=self.book,
        )

    def _anything(self) -> CatchupItem:
        """The most salient message as a line."""
        turn = max(self.analysed_turns, key=lambda one: one.salience).turn
        return CatchupItem(
            "highlight", turn, quoted(turn.text, *(sentences(turn.text) or ((0, len(turn.text)),))[0]), 0.0
        )

    def _found(self) -> dict[str, CatchupItem]:
        """Items by the id of their first message, from the model or from the rules."""
        if self.model is not None and not self.by_rules:
            return {item.turn.id: item for item in reversed(self.model.items)}
        authors = {turn.author.id: turn.author for turn in self.channel.turns if not turn.deleted}
        people = [Person.named(author.id, authors.values()) for author in authors.values() if not author.bot]
        items = find_items(self.acts, people, self.zone, first=self.first)
        return {item.turn.id: item for item in items}

    def _choose(
        self, candidates: Mapping[str, list[CatchupItem]], tokens: int
    ) -> dict[str, tuple[DigestItem, ...]]:
        """The best items of each section within its share; what is left goes to the first that can use it."""
        summaries = self._summaries()
        waiting = {name: list(self._items(candidates[name], name)) for name in SECTIONS}
        waiting["highlights"] = [*summaries, *waiting["highlights"]]
        chosen: dict[str, list[DigestItem]] = {name: [] for name in SECTIONS}
        left, said = tokens, set[str]()
        for shares in (_SHARES, dict.fromkeys(SECTIONS, 1.0)):
            for name in SECTIONS:
                kept = 0 if name == "highlights" or not waiting["highlights"] else _KEPT * tokens
                limit = min(left - round(kept), round(tokens * shares[name]))
                for item in waiting[name]:
                    words = set(item.text.casefold().split())
                    if item in chosen[name] or len(words & said) > 0.8 * len(words):
                        continue
                    cost = count(line(item) + "\n")
                    if cost > limit and any(chosen.values()):
                        continue
                    chosen[name].append(item)
                    limit -= cost
                    left -= cost
                    said |= words
                    if limit < _LEAST_LINE:
                        break
        for items in chosen.values():
            items.sort(key=lambda item: item.messages[0].seq)
        return {name: tuple(items) for name, items in chosen.items() if items}

    def _items(self, found: Iterable[CatchupItem], section: str) -> Iterator[DigestItem]:
        summarised = {
            turn.id
            for place, part in enumerate(self.parts)
            if (record := self.records[place]) is not None and record.kind == "abstractive"
            for turn in part.turns
        }
        for item in found:
            if section == "highlights" and item.turn.id in summarised:
                continue
            yield DigestItem(
                kind=item.kind,
                text=item.text,
                messages=(item.turn, *item.also),
                explained=self._explained(item),
                owner=item.owner,
                due=item.due,
                for_me=_why(item) if section == "for_me" else None,
                written=not self.by_rules and item.kind not in ("mention", "reply"),
            )

    def _summaries(self) -> list[DigestItem]:
        """Stored summaries written by a model, of windows that are entirely in the period."""
        if not self.by_rules:
            return []
        return [
            DigestItem("highlight", record.summary, part.turns, written=True)
            for place, part in enumerate(self.parts)
            if (record := self.records[place]) is not None and record.kind == "abstractive"
        ]

    def _explained(self, item: CatchupItem) -> tuple[EarlierMessage, ...]:
        """The question that a line answers, else the message that it replies to, else its evidence."""
        if self.by_rules and item.also:
            return tuple(EarlierMessage(asked, shortened(asked.text, _ASKED)) for asked in item.also)
        if item.kind == "highlight" and self.by_rules and not self._leans(item):
            return ()
        earlier = self.threads.get(item.turn.id) or self._evidence(item.turn)
        cited = {item.turn.id, *(more.id for more in item.also)}
        return () if earlier is None or earlier.turn.id in cited else (earlier,)

    def _leans(self, item: CatchupItem) -> bool:
        """Whether a line opens with a word that points to something before it."""
        (opening,) = analyse_turns([replace(item.turn, text=item.text)])
        return any(cue.family in _LEANING and cue.start <= _OPENING for cue in opening.cues)

    def _evidence(self, turn: Turn) -> EarlierMessage | None:
        place = self.part_of[turn.id]
        if place not in self._recalled:
            self._recalled[place] = self._recall(place)
        return self._recalled[place].get(turn.id)

    def _recall(self, place: int) -> Mapping[str, EarlierMessage]:
        record, part = self.records[place], self.parts[place]
        if record is not None:
            return from_record(record, self.known)
        first = part.turns[0].seq
        history = self.channel.history.as_of(first)
        nearby = [turn for turn in self.channel.turns[history.before_seq : first] if not turn.deleted]
        ref = replace(part.ref, first_seq=first, last_seq=part.turns[-1].seq, final=False)
        return self.recalling.recall(Window(ref, part.turns), history, nearby)

    def _advice(self, candidates: Mapping[str, Sequence[CatchupItem]]) -> Advice:
        """Read what concerns the user; skim decisions and channels they take part in; skip the rest."""
        kinds = Counter(item.kind for item in candidates["for_me"])
        if kinds and set(kinds) != {"reply"}:
            return "read"
        if self.me is None:
            if candidates["decisions"] or candidates["actions"]:
                return "read"
            return "skim" if candidates["questions"] or len(candidates["highlights"]) > 1 else "skip"
        participates = any(self.me.wrote(turn.author) for turn in self.channel.turns if not turn.deleted)
        if (
            kinds
            or candidates["decisions"]
            or (participates and (candidates["actions"] or candidates["questions"]))
        ):
            return "skim"
        return "skip"


def _why(item: CatchupItem) -> Literal["question", "action", "mention", "reply"]:
    if item.kind in ("question", "action", "reply"):
        return item.kind
    return "mention"
