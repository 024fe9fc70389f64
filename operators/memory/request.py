"""What a memory strategy is asked for, and what it returns.

Parameters follow ReMEMBER, section 5.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.history.channel import AsOf, ChannelHistory
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.llm.protocol import LLM, Usage
from backscroll.operators.messages import Turn

__all__ = [
    "Memory",
    "MemoryItem",
    "MemoryModel",
    "MemoryParameters",
    "MemoryRef",
    "MemoryRequest",
    "MemoryStatement",
    "MemoryStrategy",
    "MemoryTurn",
    "Needs",
    "Retrieval",
]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Parameters of first-stage retrieval; `chunk_size` in tokens."""

    top_k: int = 30
    rrf_constant: int = 60
    chunk_size: int = 128


@dataclass(frozen=True, slots=True)
class MemoryModel:
    """A language model for a strategy that needs one; `name` goes into its prompts."""

    llm: LLM
    name: str


@dataclass(frozen=True, slots=True)
class MemoryParameters:
    """What stays the same from window to window.

    Attributes:
        embedder: embeds queries; None where the history has no vectors.
        budget: most tokens of a memory.
        retrieval: parameters of first-stage retrieval.
        model: the language model, for strategies whose `needs.model` is true.
    """

    embedder: Embedder | None = None
    budget: int = 1024
    retrieval: Retrieval = Retrieval()
    model: MemoryModel | None = None

    @property
    def chunks(self) -> int:
        """K: how many chunks fill the budget."""
        return self.budget // self.retrieval.chunk_size


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """A window's turns and gaps, the history it may see, and the parameters."""

    turns: Sequence[Turn]
    gaps: Sequence[Gap]
    history: AsOf
    parameters: MemoryParameters = MemoryParameters()


@dataclass(frozen=True, slots=True)
class MemoryTurn:
    """A turn in memory, or the characters `span` of its text.

    `gap` is the index of the gap that it was taken for, `rank` its place for that gap (or in the
    strategy's own order) from 1, `score` what it was ranked by.
    """

    turn: Turn
    span: tuple[int, int] | None
    tokens: int
    gap: int | None = None
    rank: int = 1
    score: float = 0.0

    @property
    def text(self) -> str:
        """The verbatim text in memory."""
        return self.turn.text if self.span is None else self.turn.text[slice(*self.span)]

    @property
    def seqs(self) -> Sequence[int]:
        """The place of the turn."""
        return (self.turn.seq,)


@dataclass(frozen=True, slots=True)
class MemoryStatement:
    """A text in other words than the chat's; `seqs` are the places of the turns that it is about."""

    text: str
    seqs: Sequence[int]
    tokens: int
    gap: int | None = None
    rank: int = 1
    score: float = 0.0


MemoryItem: TypeAlias = MemoryTurn | MemoryStatement


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory: its items, turns in the order of the channel.

    `usage` counts the tokens of a language model, `degraded` says why something is missing from it.
    """

    items: tuple[MemoryItem, ...] = ()
    usage: Usage = field(default_factory=Usage)
    degraded: str | None = None

    @property
    def turns(self) -> tuple[MemoryTurn, ...]:
        """The verbatim turns among the items."""
        return tuple(item for item in self.items if isinstance(item, MemoryTurn))


@dataclass(frozen=True, slots=True)
class Needs:
    """What a strategy cannot work without.

    Attributes:
        vectors: a history with vectors, and an embedder.
        model: a language model. Only such a strategy may await in `build`.
    """

    vectors: bool = False
    model: bool = False


@runtime_checkable
class MemoryStrategy(Protocol):
    """Chooses from the history of a channel what a window should be read with."""

    @property
    def name(self) -> str:
        """What `--strategy` calls it; part of every summary id."""
        ...

    @property
    def needs(self) -> Needs:
        """What it cannot work without."""
        ...

    async def build(self, request: MemoryRequest) -> Memory:
        """The memory of a window, within the budget.

        Without `needs.model` it is called on a worker thread and may take time, but not await.

        Raises:
            LLMError: the language model has stopped answering.
        """
        ...


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """A turn in memory by its place, for what is in flight: the text stays in the history."""

    seq: int
    span: tuple[int, int] | None
    tokens: int
    gap: int | None
    rank: int
    score: float

    @classmethod
    def of(cls, entry: MemoryTurn) -> MemoryRef:
        """The reference to a turn in memory."""
        return cls(entry.turn.seq, entry.span, entry.tokens, entry.gap, entry.rank, entry.score)

    def read(self, history: ChannelHistory) -> MemoryTurn:
        """The turn in memory, with its text from the history."""
        (turn,) = history.turns(self.seq, self.seq)
        return MemoryTurn(turn, self.span, self.tokens, self.gap, self.rank, self.score)
