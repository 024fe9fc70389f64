"""States are decoded exactly as they were encoded, even by code that has since moved."""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.gaps.stage import Detection
from backscroll.operators.in_flight import Arrival, Gapped, Recalled
from backscroll.operators.llm.protocol import Usage
from backscroll.operators.memory.request import MemoryRef
from backscroll.operators.messages import Author, ChannelKey, Message, MessageError, Received, Turn
from backscroll.operators.runtime.state import Codec, StateError, field_names
from backscroll.operators.state_types import CODEC
from backscroll.operators.stream.admission import AdmissionState
from backscroll.operators.stream.changes import Change, Changes
from backscroll.operators.stream.windows import Cutting, Window, WindowCutter, WindowRef

GOLDEN = Path(__file__).with_name("state_v3.json")
KEY = ChannelKey("acme", "harbor")
BEGIN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
ANA = Author("u1", "Ana")
POST = Message("post", KEY, "m1", BEGIN, ANA, "漢字 🙂", "t1", "m0", "https://chat/m1")
TURN = Turn(
    7, "m7", BEGIN, Author("b1", "Bot", True), "half \ud83d", 12, -(2**63), "t7", "m6", "https://chat/m7",
    True, BEGIN + timedelta(microseconds=1), True,
)  # fmt: skip
WINDOW = Window(WindowRef(KEY, 3, 7, 8, 2, False), (TURN, Turn(8, "m8", BEGIN, ANA, "", 4, 2**63 - 1)))
GAPPED = Gapped(
    WINDOW,
    revision=4,
    detection=Detection(
        (Gap("m7", "it", "pronoun", "what is it", ("pump", "valve")),),
        "rules",
        Usage(100, 20),
        "gaps: timeout",
        {"no quote": 2},
    ),
    gaps_ms=1.5,
    known=True,
    failure="gaps: refused",
    gone=True,
)
RECEIVED = Received(
    b"", (("topic", "chat"), ("offset", 5)), b'{"id": \xff}', "chat:0", BEGIN, b"\x00k", (("h", b"\xff"),)
)
REFERENCES = MemoryRef(2, (0, 9), 4, 1, 2, 0.25), MemoryRef(3, None, 6, None, 1, inf)
STATES = (
    (
        AdmissionState(
            1, 2, 3, BEGIN, (("m1", 9, -5),), (POST,), (Change("m2", BEGIN, "at one"),), ("m3",), "chat:0"
        ),
        (Arrival(POST, RECEIVED),),
    ),
    Cutting(WindowCutter(512, 64, timedelta(minutes=30)), KEY, 4, (TURN,)),
    (WINDOW, Changes(KEY, (Change("m4", BEGIN, None),))),
    (GAPPED,),
    (Recalled(GAPPED, REFERENCES, 2.0, "memory: timeout"),),
)
"""A state of each step, in which every field differs from its default."""


def test_a_committed_state_of_version_3_is_still_decoded() -> None:
    """Fails when a tag or the order of fields changes. Add to the file, but never edit what is in it."""
    assert CODEC.decode((3, zlib.compress(GOLDEN.read_bytes()))) == STATES


def test_the_golden_state_holds_every_type() -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    assert [tag for tag in CODEC.types if f'"{tag}"' not in text] == []


def parts_of(hint: Any) -> set[type]:
    """The classes that a type hint names."""
    if get_origin(hint) is Literal:
        return set()
    if get_origin(hint) is None:
        return {hint} if isinstance(hint, type) else set()
    return set[type]().union(*map(parts_of, get_args(hint)))


def test_every_class_that_a_state_can_hold_has_a_tag() -> None:
    plain = {str, int, float, bool, bytes, type(None), datetime, timedelta, dict}
    never = {MessageError, Any}  # of `Received.value`, which an arrival has left empty
    for kind in CODEC.types.values():
        hints = get_type_hints(kind)
        found = set[type]().union(*(parts_of(hints[name]) for name in field_names(kind)))
        assert found - plain - never <= set(CODEC.types.values()), kind


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """All values of a type that a state can hold."""
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(st.characters(exclude_categories=())),  # half surrogate pairs too
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False),
        datetime: st.datetimes().map(lambda time: time.replace(tzinfo=UTC, fold=0)),
    }
    origin, inside = get_origin(hint), get_args(hint)
    if hint in plain:
        return plain[hint]
    if hint in CODEC.types.values():
        hints = get_type_hints(hint)
        if hint is Received:
            hints["value"] = bytes
        return st.builds(hint, **{name: values_of(hints[name]) for name in field_names(hint)})
    if origin in (Union, UnionType):
        return st.one_of(*map(values_of, inside))
    if origin is tuple and inside[-1] is Ellipsis:
        return st.lists(values_of(inside[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, inside))
    if origin is not None and origin is not Literal:
        return st.dictionaries(*map(values_of, inside), max_size=3)
    return st.from_type(hint)


@pytest.mark.parametrize("tag", CODEC.types)
@settings(database=None, deadline=None, max_examples=40)
@given(data=st.data())
def test_every_type_is_decoded_as_it_was_encoded(tag: str, data: st.DataObject) -> None:
    value = data.draw(values_of(CODEC.types[tag]))
    again = CODEC.decode(CODEC.encode((value, ())))
    assert again == (value, ())
    assert repr(again) == repr((value, ())), "of the same types as well"


@given(number=st.floats(), raw=st.dictionaries(st.tuples(st.text()), st.binary()))
@settings(database=None, deadline=None)
def test_plain_values_are_decoded_as_they_were_encoded(number: float, raw: dict[Any, bytes]) -> None:
    last = datetime.max.replace(tzinfo=UTC)
    state = (number, raw, timedelta(microseconds=-1), timedelta.min, last, True, None)
    assert repr(Codec({}).decode(Codec({}).encode(state))) == repr(state)


def test_no_state_is_decoded_to_none() -> None:
    assert CODEC.decode(None) is None


@dataclass(frozen=True)
class Place:
    """A class in one release; the next release renames it to `Moved` and adds a field."""

    number: int


@dataclass(frozen=True)
class Moved:
    seq: int
    thread: str = "none"


def test_a_class_can_be_renamed_and_given_a_field_with_a_default() -> None:
    old, new = Codec({"place": Place}), Codec({"place": Moved})
    assert new.decode(old.encode((Place(4),))) == (Moved(4),)


def test_a_state_of_a_newer_release_is_refused_in_one_line() -> None:
    old, new = Codec({"place": Place}), Codec({"place": Moved, "more": Place})
    for state, what in ((Moved(4), "'place' with 2 fields"), (Place(4), "'more' with 1 fields")):
        with pytest.raises(StateError) as refused:
            old.decode(new.encode(state))
        assert str(refused.value) == (
            f"the recovery directory holds a {what}, which this program cannot read: go back to the "
            "version that wrote it, or use an empty one and read from before the oldest open window "
            "(repeated messages are skipped)"
        )


@pytest.mark.parametrize("version", [1, 2, 4])
def test_a_state_of_another_version_is_refused_and_not_read(version: int) -> None:
    """Versions 1 and 2 held pickles, and unpickling runs code."""
    state = version, zlib.compress(pickle.dumps(Trap()))
    with pytest.raises(StateError) as refused:
        CODEC.decode(state)
    assert str(refused.value) == (
        f"the recovery directory holds state of version {version}, but this program reads only 3: use an "
        "empty one and read from before the oldest open window (repeated messages are skipped)"
    )


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("the state was unpickled",)


@pytest.mark.parametrize("packed", [b"damaged", zlib.compress(b"[")])
def test_a_damaged_state_is_refused_in_one_line(packed: bytes) -> None:
    with pytest.raises(StateError, match=r"^the recovery directory is damaged: restore it as a whole, or "):
        CODEC.decode((3, packed))


def test_a_value_without_a_tag_is_refused() -> None:
    with pytest.raises(TypeError, match="Place has no tag: a state cannot hold it"):
        CODEC.encode((Place(4),))
    with pytest.raises(ValueError, match="tags reserved by the codec: time"):
        Codec({"time": Place})
