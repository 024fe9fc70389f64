"""A job: a stream of messages to run through a dataflow, in this process or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import orjson
from pydantic import SecretStr

from backscroll.flows.settings.settings import Settings

__all__ = ["Job", "ResultWriter"]


@dataclass(frozen=True, slots=True)
class Job:
    """What to run: files with their formats, in order, or, for `run`, the topics of the settings.

    Results of `run` go to the topics of its settings, those of the other kinds to a `ResultWriter`.
    `speed` is in seconds of chat per second, None for as fast as possible. `detected` is the path of a
    file of recorded gaps.
    """

    kind: Literal["replay", "ingest", "run"]
    files: tuple[tuple[str, str], ...]
    settings: Settings
    speed: float | None = None
    detected: str | None = None

    @property
    def writes_topics(self) -> bool:
        """Whether results go to the topics of the settings instead of a `ResultWriter`."""
        return self.kind == "run"

    def to_json(self) -> bytes:
        """Serialise the job for a worker process."""
        fields = {name: getattr(self, name) for name in ("kind", "files", "speed", "detected")}
        settings = self.settings.model_dump(mode="json")
        for name, value in self.settings:
            if isinstance(value, SecretStr):  # the pipe to a worker is private
                settings[name] = value.get_secret_value()
        return orjson.dumps({**fields, "settings": settings})

    @classmethod
    def from_json(cls, body: bytes) -> Job:
        """Parse the output of `to_json`."""
        fields: dict[str, Any] = orjson.loads(body)
        files = tuple((path, format_) for path, format_ in fields.pop("files"))
        return cls(files=files, settings=Settings(**fields.pop("settings")), **fields)


class ResultWriter(Protocol):
    """Receives the results of a job on files, in batches, on the dataflow's worker thread."""

    def summaries(self, bodies: Sequence[bytes]) -> None:
        """Write summary records."""
        ...

    def dead_letters(self, letters: Sequence[bytes]) -> None:
        """Write rejected input, as JSON."""
        ...

    def open_windows(self, windows: Sequence[Mapping[str, Any]]) -> None:
        """Write the turns at the end of an ingested channel that are in no closed window yet."""
        ...
