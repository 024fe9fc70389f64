"""Catch-ups: what happened in a channel while the user was away, as one digest of cited lines.

What concerns the user comes first: questions to them, actions they own, mentions, and replies to them.
Then come decisions, actions with owner and date, open questions, and highlights. Every line quotes
messages verbatim, cites them, and is followed by the earlier messages that explain it. If the store
has a summary of a window, its evidence is used, and its text too if a model wrote it; for other windows
the evidence is retrieved. The headings are in the language most used in the channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Literal

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
from backscroll.operators.catchup.people import Person
from backscroll.operators.catchup.period import Period
from backscroll.operators.catchup.rule_items import CatchupItem, find_items, main_book, quoted
from backscroll.operators.history.offline import cut_turns
from backscroll.operators.language.salience import AnalysedTurn, analyse_turns
from backscroll.operators.language.sentences import sentences
from backscroll.operators.language.tokens import count
from backscroll.operators.messages import ChannelKey, Turn
from backscroll.operators.stream.windows import Window, WindowCutter
from backscroll.operators.summary.record import Summary

__all__ = ["catch_up", "in_span"]

_SHARES = (0.3, 0.25, 0.2, 0.1, 0.15)  # of the tokens, one for each section that is not empty
_OF_KIND = {"decision": "decisions", "action": "actions", "question": "questions", "highlight": "highlights"}
_LEAST_TOKENS = 60  # per channel
_LEAST_SALIENCE = 0.25  # for a highlight


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
    """
    missed = {channel.key: (channel, in_span(channel, spans)) for channel in channels}
    missed = {key: found for key, found in missed.items() if any(not turn.deleted for turn in found[1])}
    total = sum(len(turns) for _, turns in missed.values())
    digests = []
    for channel, turns in missed.values():
        tokens = max(_LEAST_TOKENS, max_tokens * len(turns) // total) if len(missed) > 1 else max_tokens
        model = (suggested or {}).get(channel.key)
        builder = _DigestBuilder(channel, turns, me, zone, recalling, cutter or WindowCutter(), model)
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
    _recalled: dict[int, Mapping[str, EarlierMessage]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_rules = self.model is None or self.model.degraded is not None
        self.live = [turn for turn in self.inside if not turn.deleted]
        self.known = {turn.id: turn for turn in self.channel.turns if not turn.deleted}
        self.analysed_turns = analyse_turns(self.live)
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
            book=main_book(self.analysed_turns),
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
        sections: dict[str, list[CatchupItem]] = {name: [] for name in SECTIONS}
        for analysed in self.analysed_turns:
            turn, found = analysed.turn, by_id.get(analysed.turn.id)
            mine = None if self.me is None else self._for_me(analysed, found, self.me)
            if mine is not None:
                sections["for_me"].append(mine)
            elif found is not None:
                sections[_OF_KIND[found.kind]].append(found)
            elif self.by_rules and not turn.author.bot and analysed.salience >= _LEAST_SALIENCE:
                sections["highlights"].append(self._highlight(analysed))
        for items in sections.values():
            items.sort(key=lambda item: (-item.score, item.turn.seq))
        if not any(sections.values()):  # only greetings or bots: still show something
            sections["highlights"] = [self._highlight(max(self.analysed_turns, key=lambda one: one.salience))]
        return sections

    def _found(self) -> dict[str, CatchupItem]:
        """Items by the id of their first message, from the model or from the rules."""
        if self.model is not None and not self.by_rules:
            return {item.turn.id: item for item in reversed(self.model.items)}
        authors = {turn.author.id: turn.author for turn in self.channel.turns if not turn.deleted}
        people = [Person.named(author.id, authors.values()) for author in authors.values() if not author.bot]
        return {item.turn.id: item for item in find_items(self.analysed_turns, people, self.zone)}

    def _for_me(self, analysed: AnalysedTurn, found: CatchupItem | None, me: Person) -> CatchupItem | None:
        """The item if it concerns the user; questions and actions score higher than the rest."""
        turn = analysed.turn
        owns = found is not None and found.kind == "action" and found.owner == me.name
        if me.wrote(turn.author):
            return replace(found, score=2 + found.score) if owns and found is not None else None
        answered = self.known.get(turn.reply_to or "")
        replies = answered is not None and me.wrote(answered.author)
        names = me.is_mentioned(turn.text)
        if owns and found is not None:
            return replace(found, score=3 + found.score)
        if found is not None and found.asks and (names or replies):
            return replace(found, kind="question", score=3 + found.score)
        if names and found is not None:
            return replace(found, score=1 + found.score)
        if names:
            return CatchupItem("mention", turn, self._mentioning(turn, me), 1 + analysed.salience)
        if replies:
            start, end = (sentences(turn.text) or ((0, len(turn.text)),))[0]
            return CatchupItem("reply", turn, quoted(turn.text, start, end), analysed.salience)
        return None

    def _mentioning(self, turn: Turn, me: Person) -> str:
        spans = sentences(turn.text) or ((0, len(turn.text)),)
        spans_with = [span for span in spans if me.is_mentioned(turn.text[slice(*span)])]
        return quoted(turn.text, *(spans_with or spans)[0])

    def _highlight(self, analysed: AnalysedTurn) -> CatchupItem:
        spans = sentences(analysed.turn.text) or ((0, len(analysed.turn.text)),)
        best = max(spans, key=lambda span: sum(span[0] <= word.start < span[1] for word in analysed.content))
        return CatchupItem("highlight", analysed.turn, quoted(analysed.turn.text, *best), analysed.salience)

    def _choose(
        self, candidates: Mapping[str, list[CatchupItem]], tokens: int
    ) -> dict[str, tuple[DigestItem, ...]]:
        """The best items of each section within its share; tokens left over go to the next sections."""
        chosen = dict[str, tuple[DigestItem, ...]]()
        summaries = self._summaries()
        shares = {
            name: share
            for name, share in zip(SECTIONS, _SHARES, strict=True)
            if candidates[name] or (name == "highlights" and summaries)
        }
        left, said = tokens, set[str]()
        for name, share in shares.items():
            remaining = sum(shares[later] for later in list(shares)[list(shares).index(name) :])
            limit = round(left * share / remaining)
            items = list[DigestItem]()
            for item in (*(summaries if name == "highlights" else ()), *self._items(candidates[name], name)):
                words = set(item.text.casefold().split())
                if len(words & said) > 0.8 * len(words):
                    continue
                cost = count(line(item) + "\n")
                if cost > limit and (items or chosen):
                    continue
                items.append(item)
                limit -= cost
                left -= cost
                said |= words
                if limit < 8:
                    break
            items.sort(key=lambda item: item.messages[0].seq)
            if items:
                chosen[name] = tuple(items)
        return chosen

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
        """The message that this one answers, and the evidence for what it presupposes."""
        turn = item.turn
        answered = self.threads.get(turn.id)
        summarised = self.records[self.part_of[turn.id]] is not None
        # Retrieved evidence is less certain than the message that is answered.
        found = [answered, self._evidence(turn) if answered is None or summarised else None]
        notes = dict[str, EarlierMessage]()
        for earlier in found:
            if earlier is not None and earlier.turn.id not in {turn.id, *(more.id for more in item.also)}:
                notes.setdefault(earlier.turn.id, earlier)
        return tuple(notes.values())

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
