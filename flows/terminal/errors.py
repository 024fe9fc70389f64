"""User errors, shown as one line without a traceback, with exit code 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from backscroll.operators.errors import BackscrollError

__all__ = ["ClusterError", "UserError", "report_user_errors", "user_error_line"]


class UserError(click.ClickException):
    """An error that the user can fix, shown as one line with exit code 2."""

    exit_code = 2


class ClusterError(BackscrollError):
    """A worker process failed; the message is what it reported."""


def user_error_line(err: BaseException) -> str | None:
    """The line to show for an error, even if the engine has wrapped it; None if it is a bug."""
    seen: BaseException | None = err
    while seen is not None:
        if isinstance(seen, click.ClickException):
            return seen.message
        if isinstance(seen, BackscrollError):
            return str(seen)
        if type(seen).__module__ == "bytewax.recovery":
            return f"recovery directory: {seen}: restore it as a whole, or start with an empty one"
        seen = seen.__cause__  # a bug that comes while a user error is handled has that as its context
    return None


@contextmanager
def report_user_errors() -> Iterator[None]:
    """Turn errors that the user can fix into a `UserError`."""
    try:
        yield
    except Exception as err:
        line = user_error_line(err)
        if line is None:
            raise
        raise UserError(line) from err
