from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.chunks import Chunk
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.messages import Message, MessageError, Turn
from backscroll.operators.state_types import CODEC
from backscroll.operators.stream.admission import Admission, AdmissionState
from backscroll.operators.stream.changes import Change
from support.building import KEY, message, turn, window

Outcome = Turn | str | None


def record(history: ChannelHistory, turns: Sequence[Turn]) -> None:
    """Record these turns as the next window of the history; admission ignores chunks."""
    closed = window(turns, len(history.windows))
    chunk = Chunk(0, 1, turns[0].seq, turns[-1].seq, "")
    history.append(RecordedWindow(closed, (chunk,), None, None))


def recording(turns: Sequence[Turn]) -> ChannelHistory:
    history = ChannelHistory(KEY, None)
    if turns:
        record(history, turns)
    return history


def take(admission: Admission, post: Message, history: ChannelHistory) -> Turn | None:
    """The turn for a message; None for a duplicate."""
    events = admission.admit(post, history)
    assert len(events) <= 1
    turn = events[0] if events else None
    assert not isinstance(turn, Change)
    return turn


def admit(admission: Admission, post: Message, history: ChannelHistory) -> Outcome:
    """The turn, None for a duplicate, or the reason why the message was refused."""
    try:
        return take(admission, post, history)
    except MessageError as err:
        return str(err)


def test_posts_get_consecutive_positions_and_token_counts() -> None:
    history = recording([])
    admission = Admission(AdmissionState.over(history))
    posts = [
        message("m0", "the pump leaks", thread="t1", reply_to="r1", permalink="https://x.example/m0"),
        message("m1", "", "Ben", 1, bot=True),
        message("m2", "漢字", "アナ", 2),
    ]
    assert [take(admission, post, history) for post in posts] == [
        turn(0, "the pump leaks", thread="t1", reply_to="r1", permalink="https://x.example/m0"),
        turn(1, "", "Ben", bot=True),
        turn(2, "漢字", "アナ"),
    ]


def test_a_turn_older_than_a_previous_one_is_late() -> None:
    history = recording([])
    admission = Admission(AdmissionState.over(history))
    minutes = [5, 3, 5, 4, 6]
    turns = [take(admission, message(f"m{n}", "x", minute=at), history) for n, at in enumerate(minutes)]
    assert [t.late for t in turns if t] == [False, True, False, True, False]


def test_an_identical_copy_is_a_duplicate_without_a_position() -> None:
    history = recording([])
    admission = Admission(AdmissionState.over(history))
    assert take(admission, message("m0", "x"), history) == turn(0, "x")
    assert take(admission, message("m0", "x"), history) is None
    assert take(admission, message("m1", "y", minute=1), history) == turn(1, "y")
    assert take(admission, message("m0", "x"), history) is None


def test_a_known_id_with_different_content_is_refused() -> None:
    history = recording([])
    admission = Admission(AdmissionState.over(history))
    take(admission, message("m0", "x"), history)
    for _ in ("open", "recorded"):
        with pytest.raises(MessageError, match=r"^id 'm0' was already used with different content$"):
            take(admission, message("m0", "z"), history)
        assert take(admission, message("m0", "x"), history) is None
        if not history.recorded_until:
            record(history, [turn(0, "x")])
    assert take(admission, message("m1", "y", minute=1), history) == turn(1, "y")


def test_a_repeated_run_emits_recorded_turns_once_with_the_same_positions() -> None:
    history = recording([turn(0, "a"), turn(1, "b"), turn(2, "c")])
    admission = Admission(AdmissionState.over(history))
    posts = [message(f"m{n}", text, minute=n) for n, text in enumerate("abcd")]
    assert [take(admission, post, history) for post in posts] == [
        turn(0, "a"),
        turn(1, "b"),
        turn(2, "c"),
        turn(3, "d"),
    ]
    assert [take(admission, post, history) for post in posts] == [None] * 4


def test_new_messages_may_arrive_before_recorded_ones_are_replayed() -> None:
    history = recording([turn(0, "a"), turn(1, "b")])
    admission = Admission(AdmissionState.over(history))
    assert take(admission, message("m9", "new", minute=9), history) == turn(2, "new", minute=9, id_="m9")
    assert take(admission, message("m1", "b", minute=1), history) == turn(1, "b")
    assert take(admission, message("m0", "a"), history) is None  # its place has been passed


def test_a_new_turn_older_than_a_replayed_one_is_late() -> None:
    history = recording([turn(0, "a", minute=0), turn(1, "b", minute=30)])
    admission = Admission(AdmissionState.over(history))
    take(admission, message("m0", "a", minute=0), history)
    take(admission, message("m1", "b", minute=30), history)
    assert take(admission, message("m2", "c", minute=20), history) == turn(2, "c", minute=20, late=True)


def test_a_snapshot_contains_the_ids_that_are_not_recorded() -> None:
    history = recording([])
    admission = Admission(AdmissionState.over(history))
    posts = [message(f"m{n}", "x", minute=n) for n in range(4)]
    turns = [take(admission, post, history) for post in posts]
    record(history, [t for t in turns[:2] if t])
    assert admission.snapshot(history) == AdmissionState(
        first_new=0,
        next_replayed=0,
        next_seq=4,
        latest=posts[3].ts,
        unrecorded=(("m2", 2, posts[2].digest), ("m3", 3, posts[3].digest)),
    )


def test_a_snapshot_stays_small_while_windows_are_recorded() -> None:
    history = recording([])
    admission = Admission(AdmissionState.over(history))
    for n in range(2048):
        admitted = take(admission, message(f"m{n}", "x"), history)
        assert admitted is not None
        record(history, [admitted])
    assert len(admission._unrecorded) <= 512
    assert admission.snapshot(history).unrecorded == ()


posts = st.lists(
    st.builds(
        message,
        st.sampled_from(["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"]),
        st.sampled_from(["x", "x", "x", "y"]),
        minute=st.just(0),
    ),
    max_size=20,
)
at_any_time = st.lists(
    st.builds(message, st.integers(0, 12).map("m{}".format), st.just("x"), minute=st.integers(0, 9)),
    max_size=20,
    unique_by=lambda post: post.id,
)


@given(stream=posts, breaks=st.sets(st.integers(0, 20)), records=st.sets(st.integers(0, 20)))
@settings(database=None, deadline=None)
def test_admission_continues_the_same_way_after_a_restart(
    stream: list[Message], breaks: set[int], records: set[int]
) -> None:
    def run(restarts: set[int]) -> list[Outcome]:
        history, outcomes = recording([]), list[Outcome]()
        admission = Admission(AdmissionState.over(history))
        for place, post in enumerate(stream):
            if place in restarts:
                state = admission.snapshot(history)
                admission = Admission(CODEC.decode(CODEC.encode(state)))
            outcomes.append(admit(admission, post, history))
            open_ = [t for t in outcomes if isinstance(t, Turn) and t.seq >= history.recorded_until]
            if place in records and open_:
                record(history, open_)
        return outcomes

    uninterrupted = run(set())
    assert run(breaks) == uninterrupted
    turns = [outcome for outcome in uninterrupted if isinstance(outcome, Turn)]
    assert [t.seq for t in turns] == list(range(len(turns)))
    assert len({t.id for t in turns}) == len(turns)


@given(stream=posts, recorded=st.integers(0, 8))
@settings(database=None, deadline=None)
def test_a_second_run_over_a_recorded_history_gives_the_same_turns(
    stream: list[Message], recorded: int
) -> None:
    empty = recording([])
    first = Admission(AdmissionState.over(empty))
    outcomes = [admit(first, post, empty) for post in stream]
    history = recording([outcome for outcome in outcomes if isinstance(outcome, Turn)][:recorded])
    second = Admission(AdmissionState.over(history))
    assert [admit(second, post, history) for post in stream] == outcomes


@given(stream=posts, snapshot=st.integers(0, 20), crash=st.integers(0, 20), recorded=st.integers(0, 8))
@settings(database=None, deadline=None)
def test_a_restart_from_an_older_snapshot_replays_what_was_recorded(
    stream: list[Message], snapshot: int, crash: int, recorded: int
) -> None:
    empty = recording([])
    first = Admission(AdmissionState.over(empty))
    outcomes, state = list[Outcome](), first.snapshot(empty)
    for place, post in enumerate(stream[: max(snapshot, crash)]):
        if place == snapshot:
            state = first.snapshot(empty)
        outcomes.append(admit(first, post, empty))
    if snapshot >= len(outcomes):
        state = first.snapshot(empty)
    history = recording([outcome for outcome in outcomes if isinstance(outcome, Turn)][:recorded])
    second = Admission(state)
    assert [admit(second, post, history) for post in stream[snapshot : len(outcomes)]] == outcomes[snapshot:]


@given(stream=at_any_time, recorded=st.integers(0, 20))
@settings(database=None, deadline=None)
def test_a_run_over_a_recorded_history_marks_the_same_turns_late(
    stream: list[Message], recorded: int
) -> None:
    empty = recording([])
    first = Admission(AdmissionState.over(empty))
    turns = [outcome for post in stream if (outcome := take(first, post, empty))]
    history = recording(turns[:recorded])
    second = Admission(AdmissionState.over(history))
    assert [take(second, post, history) for post in stream] == turns
