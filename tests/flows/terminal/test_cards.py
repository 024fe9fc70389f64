from __future__ import annotations

import io
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from rich.console import Console

from backscroll.flows.terminal.cards import card
from backscroll.operators.summary.record import GapEntry, MemoryEntry, Summary, WindowEntry

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HOSTILE = "clear \x1b[2J\x1b]0;title\x07 \x9b2J \u202e exe [red]markup[/red]"


def rendered(
    text: str,
    channel: str = "日本語/ops",
    *,
    earlier: str | None = None,
    end: datetime = START,
    zone: tzinfo = UTC,
    zone_name: str = "UTC",
) -> str:
    summary = Summary(
        summary_id="x",
        revision=0,
        final=False,
        namespace="default",
        channel=channel,
        kind="extractive",
        strategy="remember",
        window=WindowEntry(0, 0, 0, ["m9"], START, end, 9),
        summary=f"09:00 Ana: {text}",
        gaps=[GapEntry("m9", text, "", "", [], ["m1"])],
        memory=[MemoryEntry("m1", 0, "Ben", START, earlier or text, None, 5, 0, 1, 0.5)],
        tokens={},
        timings_ms={},
        models={},
    )
    out = io.StringIO()
    Console(file=out, width=100, color_system=None).print(card(summary, zone, zone_name))
    return out.getvalue()


def test_a_card_shows_channel_time_summary_and_the_message_behind_a_gap() -> None:
    shown = rendered("It is done.")
    assert "default/日本語/ops  2026-03-02 09:00 to 09:00 UTC" in shown
    assert "09:00 Ana: It is done." in shown
    assert "“It is done.” (m9)" in shown
    assert "← Ben, 2026-03-02 09:00, m1: It is done." in shown
    assert "1 message  9 tokens  extractive, remember  still open" in shown


def test_the_times_of_a_card_are_of_the_zone_which_it_names() -> None:
    end = datetime(2026, 3, 2, 23, 30, tzinfo=UTC)
    shown = rendered("It is done.", end=end, zone=ZoneInfo("Europe/Oslo"), zone_name="Europe/Oslo")
    assert "2026-03-02 10:00 to 2026-03-03 00:30 Europe/Oslo" in shown
    assert "← Ben, 2026-03-02 10:00, m1: It is done." in shown


def test_a_message_that_the_summary_quotes_in_brackets_is_not_printed_again() -> None:
    earlier = "The pump leaks."
    assert "← Ben, 2026-03-02 09:00, m1: The pump leaks." in rendered("It is done.", earlier=earlier)
    assert "←" not in rendered("It [Ben, 09:00: The pump leaks.] is done.", earlier=earlier)


def test_chat_text_cannot_control_the_terminal() -> None:
    shown = rendered(HOSTILE, channel=f"c{HOSTILE}")
    assert not any(ord(character) < 32 and character != "\n" for character in shown)
    assert not {"\x9b", "\x7f", "\u202e"} & set(shown)
    assert "␛[2J" in shown
    assert "[red]markup[/red]" in shown
