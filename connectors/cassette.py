"""Recorded answers: a JSON Lines file, one answer a line, found by the digest of the question.

    Cassette  gives what was recorded, and nothing else
    Recorder  asks a model, and records
    Resumed   gives what was recorded, and asks and records what was not

A cassette holds what a model said about somebody's chat; treat it like the chat itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import BaseModel

from connectors.files import FormatError, file_name, open_file
from operators.llm import LLM, Answer, BadAnswer, LLMRefused, Prompt, Usage, parse_answer

__all__ = ["Cassette", "Recorder", "Resumed"]

T = TypeVar("T", bound=BaseModel)


class Cassette:
    """A language model that gives the recorded answers and knows no others.

    Raises:
        FormatError: the file cannot be read, or a line of it is not a recorded answer.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._answers: dict[str, tuple[str, bool, Usage]] = {}
        self.models: list[str] = []
        with open_file(path) as file:
            for number, line in enumerate(file, start=1):
                try:
                    row = orjson.loads(line)
                    usage = Usage(int(row["prompt_tokens"]), int(row["completion_tokens"]))
                    self._answers[row["digest"]] = str(row["raw"]), bool(row["finished"]), usage
                    if row["model"] not in self.models:
                        self.models.append(row["model"])
                except (ValueError, KeyError, TypeError) as err:
                    raise FormatError(f"{file_name(path)}:{number}: not a recorded answer") from err

    def __len__(self) -> int:
        return len(self._answers)

    def holds(self, prompt: Prompt, schema: type[BaseModel]) -> bool:
        """Whether an answer to this very question was recorded."""
        return prompt.digest(schema) in self._answers

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """The recorded answer to this very question."""
        recorded = self._answers.get(prompt.digest(schema))
        if recorded is None:
            raise LLMRefused(f"{self._path.name} holds no answer to this {prompt.stage} prompt")
        raw, finished, usage = recorded
        return Answer(parse_answer(raw, schema, usage, finished=finished), usage, raw)


class Recorder:
    """A layer over a model that appends every answer to a cassette, unusable ones too.

    Raises:
        FormatError: the file cannot be written.
    """

    def __init__(self, inner: LLM, path: Path) -> None:
        self._inner = inner
        self._path = path
        try:
            path.touch(mode=0o600)
        except OSError as err:
            raise FormatError(f"{file_name(path)}: cannot be written: {err.strerror}") from err

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """Ask, and record."""
        try:
            answer = await self._inner.ask(prompt, schema)
        except BadAnswer as err:
            self._record(prompt, schema, err.raw, err.usage, finished=err.kind != "truncated")
            raise
        self._record(prompt, schema, answer.raw, answer.usage, finished=True)
        return answer

    def _record(
        self, prompt: Prompt, schema: type[BaseModel], raw: str, usage: Usage, *, finished: bool
    ) -> None:
        row = {
            "digest": prompt.digest(schema),
            "model": prompt.model,
            "stage": prompt.stage,
            "window": f"{prompt.subject.key}:{prompt.subject.first_seq}-{prompt.subject.last_seq}",
            "finished": finished,
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "raw": raw,
        }
        with self._path.open("ab") as file:  # one write a line: several processes may record at once
            file.write(orjson.dumps(row) + b"\n")


class Resumed:
    """A layer over a model for work that may be interrupted: no answered question is asked again.

    Unusable answers were answers too, so that what is resumed takes the course it would have taken.

    Args:
        inner: the model.
        path: the cassette; made if it is not there. Models of one piece of work may share it.

    Raises:
        FormatError: the file cannot be read or written, or a line of it is not a recorded answer.
    """

    def __init__(self, inner: LLM, path: Path) -> None:
        self._recorder = Recorder(inner, path)
        _drop_torn_line(path)
        self._recorded = Cassette(path)

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """The recorded answer, at no cost, or a new one, recorded before it is handed on."""
        if self._recorded.holds(prompt, schema):
            return replace(await self._recorded.ask(prompt, schema), usage=Usage(), kept=True)
        return await self._recorder.ask(prompt, schema)


def _drop_torn_line(path: Path) -> None:
    """Cut off what a full disk or a power failure left of a last line."""
    try:
        with path.open("r+b") as file:
            lines = file.read()
            file.truncate(lines.rfind(b"\n") + 1)
    except OSError as err:
        raise FormatError(f"{file_name(path)}: cannot be written: {err.strerror}") from err
