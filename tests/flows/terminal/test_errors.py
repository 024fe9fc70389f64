from __future__ import annotations

import pytest

from backscroll.connectors.lancedb.schema import StoreError
from backscroll.flows.terminal.errors import UserError, report_user_errors, user_error_line


def test_a_user_error_is_found_behind_what_it_was_wrapped_in() -> None:
    try:
        try:
            raise StoreError("store x cannot be read")
        except StoreError as err:
            raise RuntimeError("step 'history' failed") from err
    except RuntimeError as err:
        assert user_error_line(err) == "store x cannot be read"


def test_a_bug_in_the_handling_of_a_user_error_is_shown_as_a_bug() -> None:
    with pytest.raises(KeyError), report_user_errors():
        try:
            raise StoreError("store x cannot be read")
        except StoreError:
            {}["bug"]


def test_a_user_error_ends_a_command_with_its_line_and_exit_code_2() -> None:
    with pytest.raises(UserError) as ended, report_user_errors():
        raise StoreError("store x cannot be read")
    assert (ended.value.message, ended.value.exit_code) == ("store x cannot be read", 2)
