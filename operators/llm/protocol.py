"""The language model interface: a prompt and a schema in, a validated object out.

LLMError                 no usable answer
├── LLMUnavailable       no connection, a timeout, 429 or 5xx, after retries
│   └── CircuitOpen      not asked: the most recent calls all failed
├── BadAnswer            cut off, not JSON, or not valid for the schema
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
    """There is no usable answer; `kind` names the failure and `usage` is what the attempt cost."""

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
    """The server was not asked, because the most recent calls all failed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "circuit_open")


class BadAnswer(LLMError):
    """The answer is unusable but was paid for: `kind` is `truncated`, `invalid_json` or `schema`."""

    def __init__(self, message: str, kind: str, usage: Usage, raw: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.usage = usage
        self.raw = raw


class LLMSetupError(BackscrollError):
    """The language model cannot be used as configured; the message says in one line how to fix it."""


class LLMRefused(LLMError):
    """The server refused the request; a retry would not help."""

    kind = "refused"


class BudgetSpent(LLMError):
    """The tokens allowed for the day are used up."""

    kind = "budget"


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of a prompt and its completion, as counted by the server."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt + other.prompt, self.completion + other.completion)

    @property
    def total(self) -> int:
        """The sum of both."""
        return self.prompt + self.completion


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt about one window. `stage` is `gaps`, `summary` or a benchmark's own stage.

    `model` is the model's name and `version` that of the prompt file. Both are part of the digest, so a new
    prompt or model never gets an old answer. `subject` is the window, and `recalled` are the earlier turns
    whose text is in the prompt; the answer depends on both.
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
        """A digest of the prompt and everything else that affects the answer, 32 hex digits."""
        parts = (self.stage, self.version, self.model, self.system, self.user)
        shape = (self.max_tokens, self.temperature, schema.model_json_schema())
        return blake2b(orjson.dumps([*parts, *shape]), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A validated answer, its cost and its raw text. `kept` is true for a cached answer, which is free."""

    value: T
    usage: Usage
    raw: str
    kept: bool = False


class LLM(Protocol):
    """A language model, or a wrapper around one."""

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """The model's answer to a prompt.

        Raises:
            LLMError: see the tree at the top of this module.
        """
        ...


def parse_answer(raw: str, schema: type[T], usage: Usage, *, finished: bool) -> T:
    """Parse and validate a model's answer.

    Raises:
        BadAnswer: the answer was cut off, is not JSON or does not match the schema.
    """
    if not finished:
        raise BadAnswer("the answer was cut off by its token limit", "truncated", usage, raw)
    try:
        fields = orjson.loads(raw.encode("utf-8", "replace"))
    except orjson.JSONDecodeError as err:
        raise BadAnswer(f"the answer is not JSON: {err}", "invalid_json", usage, raw) from None
    try:
        return schema.model_validate(fields)
    except ValueError:  # its message would quote the answer
        raise BadAnswer("the answer does not match the schema", "schema", usage, raw) from None


class ModelAnswer(BaseModel):
    """Base class of answer schemas: no extra fields, and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def fallback_reason(stage: str, err: LLMError) -> str:
    return err.kind if err.kind == "budget" else f"{stage}: {err.kind}"
