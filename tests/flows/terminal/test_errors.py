from __future__ import annotations

import pytest

from backscroll.connectors.lancedb.schema import StoreError
from backscroll.flows.terminal.errors import UserError, report_user_errors, user_error_line

MISSING = StoreError("store x cannot be read")


def read() -> None:
    raise MISSING


def read_in_a_step() -> None:
    try:
        read()
    except StoreError as err:
        raise RuntimeError("step 'history' failed") from err


def read_and_fail_to_recover() -> None:
    try:
        read()
    except StoreError:
        {}["bug"]


def test_a_user_error_is_found_behind_what_it_was_wrapped_in() -> None:
    with pytest.raises(RuntimeError) as failed:
        read_in_a_step()
    assert user_error_line(failed.value) == str(MISSING)


def test_a_bug_in_the_handling_of_a_user_error_is_shown_as_a_bug() -> None:
    with pytest.raises(KeyError), report_user_errors():
        read_and_fail_to_recover()


def test_a_user_error_ends_a_command_with_its_line_and_exit_code_2() -> None:
    with pytest.raises(UserError) as ended, report_user_errors():
        read()
    assert (ended.value.message, ended.value.exit_code) == (str(MISSING), 2)
