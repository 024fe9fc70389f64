"""A user's mistake ends a command with one line and exit code 2, not with a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from flows.errors import user_error

__all__ = ["Mistake", "in_one_line"]


class Mistake(click.ClickException):
    """Something is the user's to mend."""

    exit_code = 2


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn errors that are a user's to mend into a `Mistake`."""
    try:
        yield
    except Exception as err:
        line = user_error(err)
        if line is None:
            raise
        raise Mistake(line) from err
