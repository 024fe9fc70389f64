"""The histories that a process holds in memory over a durable store: recording, changing, keeping summaries.

All writes run on the executor thread, in groups, because a commit of the store costs the same for
one window as for many.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.indexing import Indexer
from backscroll.operators.history.store import HistoryStore, StoredSummary
from backscroll.operators.index.embedder import Embedder, VectorSearch
from backscroll.operators.messages import ChannelKey, Turn
from backscroll.operators.stream.changes import Changes
from backscroll.operators.stream.windows import Window, WindowRef

__all__ = ["Histories"]

_ROOM = 0.95  # of the ceiling, after histories were dropped


class Histories:
    """The histories in this process's memory, loaded from the store on first use.

    When they exceed `ceiling` bytes, the least recently used are dropped from memory; they are still
    in the store. A history is never dropped while it is being written.

    Args:
        store: the durable histories.
        embedder: None for histories without vectors.
        chunker: how windows are chunked.
        ceiling: most bytes of histories in memory; None for no limit.
        search: the store's own vector search, for the longest histories.
        finish: finish changes that a crash interrupted when their channel is loaded. Pass False if
            another process writes the store: it finishes them, and until then searches find nothing
            in those windows.
    """

    def __init__(
        self,
        store: HistoryStore,
        embedder: Embedder | None,
        chunker: Chunker,
        *,
        ceiling: int | None = None,
        search: VectorSearch | None = None,
        finish: bool = True,
    ) -> None:
        self.store = store
        self.indexer = Indexer(chunker, embedder)
        self.loads = 0
        self._ceiling = ceiling
        self._search = search
        self._finishing = finish
        self._hot: dict[ChannelKey, ChannelHistory] = {}
        self._used: dict[ChannelKey, int] = {}  # when, by the count of uses
        self._uses = count()
        self._bytes: dict[ChannelKey, int] = {}
        self._pins: Counter[ChannelKey] = Counter()
        self._lock = threading.Lock()

    def __getitem__(self, key: ChannelKey) -> ChannelHistory:
        history = self._hot.get(key)
        if history is None:
            with self._lock:
                history = self._hot.get(key)
                if history is None:
                    history = self._load(key)
                    self.loads += 1
                    self._weigh(history)
                    self._used[key] = next(self._uses)
                    self._hot[key] = history
                    self._evict()
        self._used[key] = next(self._uses)
        return history

    @property
    def embedder(self) -> Embedder | None:
        """The embedder, safe to use from several threads; None for histories without vectors."""
        return self.indexer.embedder

    @property
    def hot(self) -> Set[ChannelKey]:
        """The channels whose history is in memory."""
        return self._hot.keys()

    @property
    def nbytes(self) -> int:
        """Approximate size of the histories in memory, in bytes."""
        return sum(self._bytes.values())

    def drop(self, key: ChannelKey) -> None:
        """Drop a history from memory; it is loaded again on its next use."""
        with self._lock:
            for held in (self._hot, self._used, self._bytes):
                held.pop(key, None)

    @contextmanager
    def pinned(self, keys: Iterable[ChannelKey]) -> Iterator[None]:
        """Keep histories in memory while they are written: loading one now could see half a write."""
        keys = set(keys)
        with self._lock:
            self._pins.update(keys)
        try:
            yield
        finally:
            with self._lock:
                self._pins.subtract(keys)
                self._pins += Counter()  # without zeros
                for key in keys & self._hot.keys():
                    self._weigh(self._hot[key])
                self._evict()

    def _weigh(self, history: ChannelHistory) -> None:
        self._bytes[history.key] = history.nbytes

    def _evict(self) -> None:
        """Drop the least recently used histories, and leave some room for the next ones."""
        if self._ceiling is None or self.nbytes <= self._ceiling:
            return
        held, newest = self.nbytes, max(self._used.values())
        for key in sorted(self._hot, key=self._used.__getitem__):
            if held <= self._ceiling * _ROOM:
                break
            if not self._pins[key] and self._used[key] != newest:
                held -= self._bytes.pop(key)
                del self._hot[key], self._used[key]

    def commit(self, items: Sequence[RecordedWindow | Changes]) -> list[list[WindowRef]]:
        """Store and index windows and changes, in order within each channel.

        Returns:
            For each item the windows to summarise: for a window, the window as recorded, or none if
            the history has other boundaries there; for changes, the windows whose summary used a
            changed turn.
        """
        done, group = list[list[WindowRef]](), list[RecordedWindow]()
        with self.pinned(item.key if isinstance(item, Changes) else item.window.ref.key for item in items):
            for item in items:
                if isinstance(item, Changes):
                    self._append(group)
                    group = []
                    done.append(self._change(item))
                else:
                    done.append(self._line_up(item, group))
            self._append(group)
        return done

    def record(self, window: Window) -> bool:
        """Index and commit one window; False if the history already has it."""
        before = self[window.ref.key].recorded_until
        self.commit(self.indexer.index([window]))
        return self[window.ref.key].recorded_until > before

    def window_turns(self, ref: WindowRef) -> Sequence[Turn]:
        """The turns of a recorded window."""
        return self[ref.key].turns(ref.first_seq, ref.last_seq)

    def is_current(self, key: ChannelKey, revision: int, seqs: Iterable[int]) -> bool:
        """Whether recorded turns are unchanged since a revision of their channel."""
        history = self[key]
        return not history.changed_since(revision, (seq for seq in seqs if seq < history.recorded_until))

    def keep(self, summaries: Sequence[StoredSummary]) -> list[bytes | None]:
        """Store finished summaries, each at most once per version of its turns.

        Returns:
            The body of each: the stored one if the same summary was finished in the meantime, or None
            if one of its turns has changed, so that it must be written again.
        """
        with self.pinned(made.key for made in summaries):
            return self._keep(summaries)

    def kept(self, key: ChannelKey, summary_id: str) -> bytes | None:
        """The body of a finished summary; None if there is none or its messages have changed."""
        return self.store.summary(summary_id) if summary_id in self[key].summary_ids else None

    def _keep(self, summaries: Sequence[StoredSummary]) -> list[bytes | None]:
        bodies, kept = list[bytes | None](), list[StoredSummary]()
        for made in summaries:
            summary_ids = self[made.key].summary_ids
            window = range(made.first_seq, made.last_seq + 1)
            if not self.is_current(made.key, made.revision, (*window, *made.recalled)):
                bodies.append(None)
            elif made.summary_id in summary_ids:
                earlier = [one.body for one in kept if one.summary_id == made.summary_id]
                bodies.append(earlier[0] if earlier else self.store.summary(made.summary_id))
            else:
                summary_ids.add(made.summary_id)
                kept.append(replace(made, reissued=made.summary_id in self[made.key].stale_ids))
                self[made.key].stale_ids.discard(made.summary_id)
                bodies.append(made.body)
        if kept:
            self.store.put_summaries(kept)
        return bodies

    def _line_up(self, recorded: RecordedWindow, group: list[RecordedWindow]) -> list[WindowRef]:
        """Queue a window to be appended, unless it is already recorded."""
        ref = recorded.window.ref
        history = self[ref.key]
        if ref.last_seq >= history.recorded_until:
            ref = replace(ref, revision=history.revision)
            group.append(replace(recorded, window=Window(ref, recorded.window.turns)))
            return [ref]
        known = history.window_of(ref.last_seq)
        return [known] if (known.first_seq, known.last_seq) == (ref.first_seq, ref.last_seq) else []

    def _append(self, group: Sequence[RecordedWindow]) -> None:
        if not group:
            return
        ahead = dict[ChannelKey, int]()
        for recorded in group:
            key, ref = recorded.window.ref.key, recorded.window.ref
            if key not in ahead:
                self[key].check([recorded])
            elif ahead[key] != ref.first_seq:
                raise AssertionError(f"{key}: the windows to record are not consecutive")
            ahead[key] = ref.last_seq + 1
        self.store.append(group)
        for recorded in group:
            self[recorded.window.ref.key].append(recorded)

    def _change(self, changes: Changes) -> list[WindowRef]:
        """Change recorded turns; repeating a change finishes what was interrupted the first time."""
        history = self[changes.key]
        changed, touched, erased = dict[int, Turn](), set[int](), list[str]()
        steps = 0
        for change in changes.changes:
            turn = history.find(change.id)
            if turn is None:
                if change.text is None:
                    erased.append(change.id)
                continue
            turn = changed.get(turn.seq, turn)
            after = change.apply(turn)
            if after is not None:
                changed[turn.seq] = after
                steps += 1
            if after is not None or change.ts == turn.edited:
                touched.add(turn.seq)
        if erased:
            self.store.put_erased(changes.key, erased)
            history.erased_ids.update(erased)
        if changed:
            self._rewrite(history, changed, history.revision + steps)
        dependent = self.store.depending_on(changes.key, sorted(touched)) if touched else []
        stale = {kept.summary_id for kept in dependent if not kept.body}
        history.summary_ids -= stale
        history.stale_ids |= stale
        # A summary that was reissued before a crash may not have been sent.
        outdated = {kept.first_seq for kept in dependent if not kept.body or kept.reissued}
        return [history.window_of(seq) for seq in sorted(outdated)]

    def _rewrite(self, history: ChannelHistory, changed: dict[int, Turn], revision: int) -> None:
        refs = {history.window_of(seq).index: history.window_of(seq) for seq in changed}
        self.store.begin_change(history.key, list(changed.values()), sorted(refs))
        for index in sorted(refs):
            ref = replace(refs[index], revision=revision)
            turns = tuple(changed.get(turn.seq, turn) for turn in history.turns(ref.first_seq, ref.last_seq))
            kept = history.kept_turn_vectors(ref) if history.has_vectors else None
            recorded = self.indexer.index_again(Window(ref, turns), kept, changed)
            history.replace(recorded)
            self.store.finish_change(recorded)

    def _load(self, key: ChannelKey) -> ChannelHistory:
        dimensions = self.embedder.dimensions if self.embedder else None
        history = ChannelHistory(key, dimensions, search=self._search)
        stored = self.store.load(key)
        history.extend(stored.windows, unfinished=stored.unfinished)
        after = history.revision + 1
        for index in sorted(stored.unfinished) if self._finishing else ():
            history.replace(self._finish(stored.windows[index].window, after))
        history.summary_ids = set(stored.summary_ids)
        history.stale_ids = set(stored.stale_ids)
        history.erased_ids = set(stored.erased_ids)
        return history

    def _finish(self, window: Window, revision: int) -> RecordedWindow:
        """Finish a change that was interrupted after its new turns were stored."""
        (recorded,) = self.indexer.index([replace(window, ref=replace(window.ref, revision=revision))])
        self.store.finish_change(recorded)
        return recorded
