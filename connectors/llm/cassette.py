"""Recorded answers: a JSON Lines file, one answer a line, found by the digest of the question.

A cassette holds what a model said about somebody's chat; treat it like the chat itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import BaseModel

from backscroll.connectors.files.base.format import FormatError, file_name, open_file
from backscroll.operators.llm.protocol import LLM, Answer, BadAnswer, LLMRefused, Prompt, Usage, parse_answer

__all__ = ["Cassette", "Recorder"]

T = TypeVar("T", bound=BaseModel)


_BEGIN = b'{"digest":'


class Cassette:
    """A language model that gives the recorded answers and knows no others.

    Args:
        path: the file.
        torn: leave out a broken last line without its line break, which a crash has left.

    Raises:
        FormatError: the file cannot be read, or a line of it is not a recorded answer.
    """

    def __init__(self, path: Path, *, torn: bool = False) -> None:
        self._path = path
        self.whole = 0
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
                    self.whole += len(line)
                except (ValueError, KeyError, TypeError) as err:
                    if torn and not line.endswith(b"\n") and line[: len(_BEGIN)] == _BEGIN[: len(line)]:
                        break
                    raise FormatError(f"{file_name(path)}:{number}: not a recorded answer") from err

    def holds(self, prompt: Prompt, schema: type[BaseModel]) -> bool:
        """Whether this very question was answered."""
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

    Args:
        inner: the model.
        path: the cassette; made if it is not there.
        resume: give the answers that the cassette already holds instead of asking again.

    Raises:
        FormatError: the file cannot be written or, to resume, not be read.
    """

    def __init__(self, inner: LLM, path: Path, *, resume: bool = False) -> None:
        self._inner = inner
        self._path = path
        try:
            path.touch(mode=0o600)
            self._kept = self._resumed() if resume else None
        except OSError as err:
            raise FormatError(f"{file_name(path)}: cannot be written: {err.strerror}") from err

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """Ask, and record."""
        if self._kept is not None and self._kept.holds(prompt, schema):
            return await self._kept.ask(prompt, schema)
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

    def _resumed(self) -> Cassette:
        """The answers so far, in a file that ends with a whole line."""
        kept = Cassette(self._path, torn=True)
        with self._path.open("r+b") as file:
            file.truncate(kept.whole)
            if kept.whole:
                file.seek(kept.whole - 1)
                if file.read(1) != b"\n":
                    file.write(b"\n")
        return kept
