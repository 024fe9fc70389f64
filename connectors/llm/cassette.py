"""Cassettes: recorded model answers in a JSON Lines file, looked up by the digest of the prompt.

A cassette contains what a model said about somebody's chat, so treat it like the chat itself.
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
    """A language model that replays recorded answers, and only those.

    Args:
        path: the file.
        torn: ignore an incomplete last line, as left by a crash.

    Raises:
        FormatError: the file cannot be read, or one of its lines is not a recorded answer.
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
                    msg = f"{file_name(path)}:{number}: not a recorded answer: expected a cassette"
                    raise FormatError(msg) from err

    def holds(self, prompt: Prompt, schema: type[BaseModel]) -> bool:
        """Whether the answer to this exact prompt was recorded."""
        return prompt.digest(schema) in self._answers

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """The recorded answer to this exact prompt."""
        recorded = self._answers.get(prompt.digest(schema))
        if recorded is None:
            raise LLMRefused(f"{self._path.name} has no answer to this {prompt.stage} prompt")
        raw, finished, usage = recorded
        return Answer(parse_answer(raw, schema, usage, finished=finished), usage, raw)


class Recorder:
    """Wraps a model and appends every answer to a cassette, including unusable ones.

    Args:
        inner: the model.
        path: the cassette; created if missing.
        resume: return answers that the cassette already has instead of asking again.

    Raises:
        FormatError: the file cannot be written or, to resume, cannot be read.
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
        """Ask the model and record its answer."""
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
        with self._path.open("ab") as file:  # one write per line, as several processes may record at once
            file.write(orjson.dumps(row) + b"\n")

    def _resumed(self) -> Cassette:
        """The answers so far; truncates the file to end with a complete line."""
        kept = Cassette(self._path, torn=True)
        with self._path.open("r+b") as file:
            file.truncate(kept.whole)
            if kept.whole:
                file.seek(kept.whole - 1)
                if file.read(1) != b"\n":
                    file.write(b"\n")
        return kept
