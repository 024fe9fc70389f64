"""Which failures are a user's to mend: they get one line, no traceback, and exit code 2."""

from __future__ import annotations

import click

__all__ = ["user_error"]


def user_error(err: BaseException) -> str | None:
    """The line to show for an error, found behind what the engine wrapped it in; None for a defect."""
    from benchmarks.gaps import BenchmarkError
    from connectors.embedders import EmbedderError
    from connectors.files import FormatError
    from connectors.kafka_errors import KafkaError
    from connectors.live_errors import LiveError
    from flows.cluster import ClusterError
    from flows.settings import SettingsError
    from operators.history import HistoryError
    from operators.llm import LLMSetupError
    from operators.state import StateError

    mendable = (
        BenchmarkError,
        ClusterError,
        FormatError,
        EmbedderError,
        HistoryError,
        KafkaError,
        LLMSetupError,
        LiveError,
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
