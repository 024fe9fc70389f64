"""Which failures are a user's to mend: they get one line, no traceback, and exit code 2."""

from __future__ import annotations

import click

__all__ = ["user_error"]


def user_error(err: BaseException) -> str | None:
    """The line to show for an error, found behind what the engine wrapped it in; None for a defect."""
    from connectors.embedders import EmbedderError
    from connectors.files import FormatError
    from connectors.openai_llm import LLMSetupError
    from flows.settings import SettingsError
    from operators.history import HistoryError

    seen: BaseException | None = err
    while seen is not None:
        if isinstance(seen, click.ClickException):
            return seen.message
        if isinstance(seen, FormatError | EmbedderError | HistoryError | LLMSetupError | SettingsError):
            return str(seen)
        seen = seen.__cause__ or seen.__context__
    return None
