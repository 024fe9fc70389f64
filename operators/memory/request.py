"""What a memory strategy receives, and what it returns.

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
    """Parameters of first-stage retrieval; `chunk_size` is in tokens."""

    top_k: int = 30
    rrf_constant: int = 60
    chunk_size: int = 128


@dataclass(frozen=True, slots=True)
class MemoryModel:
    """A language model for a strategy that needs one; prompts state its `name`."""

    llm: LLM
    name: str


@dataclass(frozen=True, slots=True)
class MemoryParameters:
    """Parameters that are the same for every window.

    Attributes:
        embedder: embeds queries; None if the history has no vectors.
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
        """K: the number of chunks that fill the budget."""
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

    `gap` is the index of the gap it was taken for, `rank` its rank for that gap (or in the
    strategy's own order), from 1, and `score` what it was ranked by. `relevance` has the log-odds that
    it answers each gap, if the strategy estimates them.
    """

    turn: Turn
    span: tuple[int, int] | None
    tokens: int
    gap: int | None = None
    rank: int = 1
    score: float = 0.0
    relevance: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """The verbatim text that is in the memory."""
        return self.turn.text if self.span is None else self.turn.text[slice(*self.span)]

    @property
    def seqs(self) -> Sequence[int]:
        """The `seq` of the turn."""
        return (self.turn.seq,)


@dataclass(frozen=True, slots=True)
class MemoryStatement:
    """A text that paraphrases the chat; `seqs` are those of the turns it is about."""

    text: str
    seqs: Sequence[int]
    tokens: int
    gap: int | None = None
    rank: int = 1
    score: float = 0.0


MemoryItem: TypeAlias = MemoryTurn | MemoryStatement


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory: its items, with turns in channel order.

    `usage` counts the language model's tokens. `degraded` is the reason if something is missing.
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
    """What a strategy requires.

    Attributes:
        vectors: a history with vectors, and an embedder.
        model: a language model. Only a strategy with a model may await in `build`.
    """

    vectors: bool = False
    model: bool = False


@runtime_checkable
class MemoryStrategy(Protocol):
    """Chooses the earlier turns of a channel that a window is summarised with."""

    @property
    def name(self) -> str:
        """Its name for `--strategy`; part of every summary id."""
        ...

    @property
    def needs(self) -> Needs:
        """What it requires."""
        ...

    async def build(self, request: MemoryRequest) -> Memory:
        """The memory of a window, within the budget.

        Without `needs.model` it is called on a worker thread: it may take time but must not await.

        Raises:
            LLMError: the language model has stopped answering.
        """
        ...


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """A turn in memory by its `seq`, for items in flight: the text stays in the history."""

    seq: int
    span: tuple[int, int] | None
    tokens: int
    gap: int | None
    rank: int
    score: float
    relevance: tuple[float, ...] = ()

    @classmethod
    def of(cls, entry: MemoryTurn) -> MemoryRef:
        """A reference to a turn in memory."""
        return cls(
            entry.turn.seq,
            entry.span,
            entry.tokens,
            entry.gap,
            entry.rank,
            entry.score,
            entry.relevance,
        )

    def read(self, history: ChannelHistory) -> MemoryTurn:
        """The turn in memory, with its text from the history."""
        (turn,) = history.turns(self.seq, self.seq)
        return MemoryTurn(turn, self.span, self.tokens, self.gap, self.rank, self.score, self.relevance)
