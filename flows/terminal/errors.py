"""User errors: one line, no traceback, and exit code 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    pass

__all__ = ["ClusterError", "UserError", "report_user_errors", "user_error_line"]


def user_error_line(err: BaseException) -> str | None:
    """The line to show for an error, found behind what the engine wrapped it in; None for a defect."""
    from backscroll.benchmarks.data.gaps import BenchmarkError
    from backscroll.connectors.chat.errors import ChatError
    from backscroll.connectors.embedding.packaged import EmbedderError
    from backscroll.connectors.files.base.format import FormatError
    from backscroll.connectors.kafka.errors import KafkaError
    from backscroll.flows.settings.settings import SettingsError
    from backscroll.operators.history.store import HistoryError
    from backscroll.operators.llm.protocol import LLMSetupError
    from backscroll.operators.runtime.state import StateError

    mendable = (
        BenchmarkError,
        ClusterError,
        FormatError,
        EmbedderError,
        HistoryError,
        KafkaError,
        LLMSetupError,
        ChatError,
        SettingsError,
        StateError,
    )
    seen: BaseException | None = err
    while seen is not None:
        if isinstance(seen, click.ClickException):
            return seen.message
        if isinstance(seen, mendable):
            return str(seen)
        if type(seen).__module__ == "bytewax.recovery":
            return f"recovery directory: {seen}: restore it as a whole, or begin with an empty one"
        seen = seen.__cause__ or seen.__context__
    return None


class UserError(click.ClickException):
    """Something is the user's to mend."""

    exit_code = 2


@contextmanager
def report_user_errors() -> Iterator[None]:
    """Turn errors that are a user's to mend into a `UserError`."""
    try:
        yield
    except Exception as err:
        line = user_error_line(err)
        if line is None:
            raise
        raise UserError(line) from err


class ClusterError(RuntimeError):
    """A worker process failed; the text is what it said."""
