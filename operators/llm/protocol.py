"""Language models as the engine sees them: a prompt and a schema in, a validated object out.

LLMError                 an answer could not be had
├── LLMUnavailable       no connection, a time-out, 429 or 5xx, after retries
│   └── CircuitOpen      not asked: the last calls all failed
├── BadAnswer            cut off, not JSON, or against the schema
├── LLMRefused           the request itself was refused (400, 401, 403, 404 ...)
└── BudgetSpent          not asked: the day's tokens are used up
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict

from backscroll.operators.errors import BackscrollError
from backscroll.operators.stream.windows import WindowRef

__all__ = [
    "LLM",
    "Answer",
    "BadAnswer",
    "BudgetSpent",
    "CircuitOpen",
    "LLMError",
    "LLMRefused",
    "LLMSetupError",
    "LLMUnavailable",
    "ModelAnswer",
    "Prompt",
    "Usage",
    "fallback_reason",
    "parse_answer",
]

T = TypeVar("T", bound=BaseModel)


class LLMError(RuntimeError):
    """An answer could not be had; `kind` names the failure, `usage` is what it cost all the same."""

    kind = "error"
    usage: Usage

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.usage = Usage()


class LLMUnavailable(LLMError):
    """The server did not answer: `kind` is `connection`, `timeout`, `rate_limit` or `server`."""

    def __init__(self, message: str, kind: str = "connection") -> None:
        super().__init__(message)
        self.kind = kind


class CircuitOpen(LLMUnavailable):
    """The server was not asked, because the last calls all failed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "circuit_open")


class BadAnswer(LLMError):
    """The answer is unusable: `kind` is `truncated`, `invalid_json` or `schema`. It was paid for."""

    def __init__(self, message: str, kind: str, usage: Usage, raw: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.usage = usage
        self.raw = raw


class LLMSetupError(BackscrollError):
    """The language model cannot be used as configured; one line says what would be right."""


class LLMRefused(LLMError):
    """The server refused the request; asking again would not help."""

    kind = "refused"


class BudgetSpent(LLMError):
    """The tokens allowed for the day are used up."""

    kind = "budget"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a model read and wrote, by the server's count."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt + other.prompt, self.completion + other.completion)

    @property
    def total(self) -> int:
        """Both together."""
        return self.prompt + self.completion


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked about one window: `stage` is `gaps`, `summary` or what a benchmark asks.

    `model` is the model's name, `version` the prompt file's; both are part of the digest, so a new
    prompt or model never meets an old answer. `subject` is the window and `recalled` the earlier
    turns whose text is in the prompt: an answer rests on both.
    """

    stage: str
    version: str
    model: str
    system: str
    user: str
    subject: WindowRef
    max_tokens: int
    temperature: float = 0.0
    recalled: tuple[int, ...] = ()

    def digest(self, schema: type[BaseModel]) -> str:
        """Identifies the question and everything that shapes the answer, 32 hex digits."""
        parts = (self.stage, self.version, self.model, self.system, self.user)
        shape = (self.max_tokens, self.temperature, schema.model_json_schema())
        return blake2b(orjson.dumps([*parts, *shape]), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A validated answer, what it cost, and its raw text. `kept` answers cost nothing now."""

    value: T
    usage: Usage
    raw: str
    kept: bool = False


class LLM(Protocol):
    """A language model, or a layer over one."""

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """The model's answer to a prompt.

        Raises:
            LLMError: see the tree at the top of this module.
        """
        ...


def parse_answer(raw: str, schema: type[T], usage: Usage, *, finished: bool) -> T:
    """Validate a model's text.

    Raises:
        BadAnswer: the text was cut off, is not JSON or does not fit the schema.
    """
    if not finished:
        raise BadAnswer("the answer was cut off by its token limit", "truncated", usage, raw)
    try:
        fields = orjson.loads(raw.encode("utf-8", "replace"))
    except orjson.JSONDecodeError as err:
        raise BadAnswer(f"the answer is not JSON: {err}", "invalid_json", usage, raw) from None
    try:
        return schema.model_validate(fields)
    except ValueError:  # its text quotes the answer
        raise BadAnswer("the answer does not fit the schema", "schema", usage, raw) from None


class ModelAnswer(BaseModel):
    """What every answer's schema is: closed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def fallback_reason(stage: str, err: LLMError) -> str:
    return err.kind if err.kind == "budget" else f"{stage}: {err.kind}"
