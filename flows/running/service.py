"""What every engine that runs until stopped does: it needs a store, and ends within seconds of a signal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from backscroll.flows.running.signals import StopSignal, handle_signals, kill_after
from backscroll.flows.settings.settings import Settings
from backscroll.flows.terminal.errors import UserError, user_error_line
from backscroll.operators.runtime.runtime import Runtime

__all__ = ["check_store", "until_stopped"]

_PATIENCE_SECONDS = 3.5


def check_store(settings: Settings) -> None:
    """Check that the settings name a store.

    Raises:
        UserError: they do not.
    """
    if settings.store is None:
        raise UserError("run needs a --store, which keeps the history that summaries use")


@contextmanager
def until_stopped(runtime: Runtime, stop: StopSignal) -> Iterator[None]:
    """Stop the engine on a signal while the context is open, by force if that takes too long.

    Enter it when work starts: until then, a signal may simply end the process. Afterwards an unreachable
    broker, or peers that keep running, could block the end.
    """

    def exit_code() -> int:
        if runtime.failure is None:
            return 0
        click.echo(f"Error: {user_error_line(runtime.failure) or repr(runtime.failure)}", err=True)
        return UserError.exit_code

    with handle_signals(stop), kill_after(stop, _PATIENCE_SECONDS, exit_code):
        yield
