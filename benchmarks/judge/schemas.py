"""What a judge answers: one verdict for every item asked about, in a schema made for the question.

The items are the fields of the schema, all of them required, so an answer that leaves one out, adds one
or cites a sentence that is not there is invalid as JSON of that schema, and is asked for again. Every
verdict gives its grounds before its decision, and a decision for has to point at something.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, Field, create_model, model_validator

from backscroll.operators.llm.protocol import ModelAnswer

__all__ = [
    "SUPPORTED",
    "Expressed",
    "FactVerdict",
    "MemoryVerdict",
    "UtteranceVerdict",
    "citing",
    "facts_of",
    "keyed",
]

V = TypeVar("V", bound=BaseModel)
_MOST_FACTS = 16

Category = Literal[
    "no error",
    "out-of-context error",
    "entity error",
    "predicate error",
    "circumstantial error",
    "coreference error",
    "linking error",
    "grammatical error",
    "other error",
]
SUPPORTED = "no error"


class MemoryVerdict(ModelAnswer):
    """Whether a memory holds what resolves a gap, and where."""

    needed: str
    found: str
    missing: str
    contained: bool

    @model_validator(mode="after")
    def _found_if_contained(self) -> Self:
        if self.contained and not self.found.strip():
            raise ValueError("contained, but found nowhere")
        return self


class _Citing(ModelAnswer):
    """A verdict that rests on `sentences` of the summary; `decision` names the field that decides."""

    decision: ClassVar[str]
    if TYPE_CHECKING:
        sentences: list[int]  # declared by each subclass, so that it comes after the grounds

    @property
    def cited(self) -> frozenset[int]:
        """The sentences; none where the decision is against."""
        return frozenset(self.sentences if getattr(self, self.decision) else ())

    @model_validator(mode="after")
    def _cited_if_decided_for(self) -> Self:
        if getattr(self, self.decision) and not self.cited:
            raise ValueError("decided for, but no sentence says it")
        return self


class UtteranceVerdict(_Citing):
    """Whether the summary states the claim of an utterance, and in which sentences."""

    decision = "covered"
    claim: str
    sentences: list[int]
    covered: bool


class Expressed(_Citing):
    """Whether the summary states the fact that settles a gap, and in which sentences."""

    decision = "expressed"
    question: str
    fact: str
    sentences: list[int]
    expressed: bool


class FactVerdict(ModelAnswer):
    """Whether the sources support a fact, and what kind of error it is if they do not."""

    reason: str
    category: Category


@cache
def citing(verdict: type[V], sentences: int) -> type[V]:
    """The verdict for a summary of so many sentences: it cites none that is not there."""
    sentence = Annotated[int, Field(ge=0, le=sentences - 1)]
    cited = Annotated[list[sentence], Field(json_schema_extra={"maxItems": sentences})]
    return create_model(verdict.__name__, __base__=verdict, __doc__=verdict.__doc__, sentences=(cited, ...))


@cache
def keyed(verdict: type[BaseModel], ids: tuple[str, ...]) -> type[BaseModel]:
    """An object with exactly one verdict for every id."""
    fields: dict[str, Any] = dict.fromkeys(ids, (verdict, ...))
    return create_model("Verdicts", __base__=ModelAnswer, **fields)


@cache
def facts_of(ids: tuple[str, ...]) -> type[BaseModel]:
    """An object with the list of facts of every sentence."""
    facts = Annotated[list[str], Field(json_schema_extra={"maxItems": _MOST_FACTS})]
    fields: dict[str, Any] = dict.fromkeys(ids, (facts, ...))
    return create_model("Facts", __base__=ModelAnswer, **fields)
