"""A language model that returns what a test has written down for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import orjson
from pydantic import BaseModel

from backscroll.operators.llm.protocol import Answer, LLMError, Prompt, Usage

T = TypeVar("T", bound=BaseModel)


@dataclass
class ScriptedModel:
    """Returns the scripted answers in order: a JSON object, or an error."""

    script: list[object]
    asked: list[Prompt] = field(default_factory=list)

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        self.asked.append(prompt)
        answer = self.script.pop(0)
        if isinstance(answer, LLMError):
            raise answer
        return Answer(schema.model_validate(answer), Usage(100, 10), orjson.dumps(answer).decode())
