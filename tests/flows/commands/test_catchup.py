"""The catch-up command: on the sample chats, from a store, and with a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from backscroll.flows.cli.main import main
from support.chat_server import chat_server
from support.commands import run

SAMPLES = Path(__file__).parents[3] / "samples"
HARBOR = ("--file", str(SAMPLES / "harbor.jsonl"))
HEBREW = "כן, הבאתי את הדוחות של הנמל מהמשרד הראשי אתמול בערב"
MORNING = (*HARBOR, "--since", "m433", "--until", "m445", "--me", "Lena", "--tz", "Europe/Oslo")


def catchup(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["catchup", *map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def digest(*arguments: object) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(catchup(*arguments, "--as", "json"))
    return fields


def ids(items: Sequence[dict[str, Any]]) -> list[str]:
    return [item["messages"][0]["id"] for item in items]


def test_a_morning_of_the_sample_reads_as_it_should() -> None:
    text = catchup(*MORNING, "--max-tokens", 260)
    assert text == (Path(__file__).parent / "catchup" / "morning.txt").read_text("utf-8")


def test_three_days_of_the_sample_for_one_of_its_people() -> None:
    fields = digest(*HARBOR, "--since", "3d", "--until", "latest", "--me", "bram")
    assert (fields["me"], fields["time_zone"], fields["until"]) == (
        "Bram",
        "UTC",
        "2026-03-11T13:21:43.000001Z",
    )
    (channel,) = fields["channels"]
    assert (channel["advice"], channel["messages"], channel["windows"]) == (
        "read",
        196,
        {"reused": 0, "provisional": 5},
    )
    assert ids(channel["for_me"]) == ["m289", "m292", "m312", "m385", "m435", "m461"]
    cited = [one["id"] for name in ("for_me", "decisions", "actions") for one in channel[name][0]["messages"]]
    assert all("m284" <= id_ <= "m479" for id_ in cited)
    shown = {one["id"] for name in ("for_me", "decisions", "actions", "questions", "highlights")
             for item in channel[name] for one in item["messages"]}  # fmt: skip
    left = channel["left_out"]
    assert len(shown) + left["unmentioned"] + left["bots"] == channel["messages"]


@pytest.mark.parametrize(
    ("sample", "since", "me", "headings"),
    [
        ("sommerkonzert", "2026-04-20", "Peer", ["Für Peer", "Entscheidungen", "Aufgaben", "Das Wichtigste"]),
        ("placas-solares", "2026-05-04", "María", ["Para María", "Decisiones", "Tareas", "Omitidos:"]),
        ("honya-app", "2026-06-01", "林", ["林さんへ", "決定事項", "やること", "主な話題", "省略:"]),
    ],
)
def test_a_chat_is_caught_up_in_its_own_language(
    sample: str, since: str, me: str, headings: list[str]
) -> None:
    text = catchup("--file", SAMPLES / f"{sample}.jsonl", "--since", since, "--me", me)
    assert [heading for heading in headings if f"\n{heading}" in text] == headings
    assert "Decisions" not in text


def test_owners_dates_and_open_questions_of_the_other_languages() -> None:
    (german,) = digest("--file", SAMPLES / "sommerkonzert.jsonl", "--since", "2026-04-27T12:00")["channels"]
    assert german["quoted"]["text"] == "Wer bringt am Mittwoch das Metronom mit? Meins ist kaputt."
    (spanish,) = digest("--file", SAMPLES / "placas-solares.jsonl", "--since", "es033")["channels"]
    (llamo,) = [one for one in spanish["actions"] if ids([one]) == ["es034"]]
    assert (llamo["owner"], llamo["due"]["date"]) == ("Raúl", "2026-05-12")
    (japanese,) = digest(
        "--file", SAMPLES / "honya-app.jsonl", "--since", "ja026", "--until", "ja037", "--me", "林"
    )["channels"]
    assert ids(japanese["questions"]) == ["ja037"]
    assert [(ids([one]), one["due"]["date"]) for one in japanese["for_me"]] == [(["ja036"], "2026-06-09")]


def test_nothing_new_says_so_and_when_the_newest_message_was() -> None:
    text = catchup(*HARBOR, "--since", "2026-04-01", "--until", "2026-04-02")
    assert text == (
        "Nothing new from 2026-04-01 00:00 to 2026-04-02 00:00 (UTC); "
        "the newest message is from 2026-03-11 13:21\n"
    )
    text = catchup("--file", SAMPLES / "honya-app.jsonl", "--since", "2026-07-01")
    assert text.startswith("新着はありません 2026-07-01 00:00 から 現在 まで(UTC)")


def test_a_single_message_is_quoted() -> None:
    assert "> 13:21 Bram: moaning resumes tomorrow in #harbor  (m479)" in catchup(*HARBOR, "--since", "m478")


def test_right_to_left_text_and_emoji_survive_and_control_characters_do_not(tmp_path: Path) -> None:
    said = [
        "مرحبا 👩‍🚀، الاجتماع غدا الساعة 10؟",
        f"{HEBREW} \u202e \u001b[31m <b>*x*</b> 🎉",
    ]
    lines = [
        {"channel": "قناة", "id": f"r{n}", "ts": f"2026-03-02T09:0{n}:00Z", "author": "ליה", "text": text}
        for n, text in enumerate(said)
    ]
    chat = tmp_path / "chat.jsonl"
    chat.write_text("\n".join(map(json.dumps, lines)))
    (channel,) = digest("--file", chat, "--since", "2026-03-02")["channels"]
    assert channel["questions"][0]["text"] == said[0]
    text = catchup("--file", chat, "--since", "2026-03-02")
    assert f"- 09:00 \u2068ליה\u2069: \u2068{said[0]}\u2069  (r0)" in text
    assert f"\u2068{HEBREW} ␛ ␛[31m <b>*x*</b> 🎉\u2069  (r1)" in text
    assert r"␛\[31m \<b\>\*x\*\</b\> 🎉" in catchup(
        "--file", chat, "--since", "2026-03-02", "--as", "markdown"
    )


def test_edits_and_deletions_of_a_file_are_seen(tmp_path: Path) -> None:
    at = "2026-03-02T09:0{}:00Z"
    lines: list[dict[str, object]] = [
        {"id": "a", "ts": at.format(0), "author": "Ana", "text": "We decided to keep gannet."},
        {"id": "b", "ts": at.format(1), "author": "Ben", "text": "a secret that should not have been said"},
        {"id": "c", "ts": at.format(2), "author": "Cem", "text": "Where is the copy of the old table?"},
        {"op": "edit", "id": "a", "ts": at.format(3), "text": "We decided to keep pelican."},
        {"op": "delete", "id": "b", "ts": at.format(4)},
        {"id": "d", "ts": "yesterday", "author": "Ana", "text": "not a message"},
    ]
    chat = tmp_path / "chat.jsonl"
    chat.write_text("\n".join(json.dumps({"channel": "ops", **line}) for line in lines))
    text = catchup("--file", chat, "--since", "2026-03-02")
    assert "Ana: We decided to keep pelican.  (a)" in text
    assert "secret" not in text
    assert "Left out: deleted: 1" in text
    assert "1 invalid lines skipped" in text


def test_several_channels_make_one_digest_the_busiest_first() -> None:
    files = (*HARBOR, "--file", SAMPLES / "honya-app.jsonl", "--file", SAMPLES / "sommerkonzert.jsonl")
    fields = digest(*files, "--since", "2026-03-11", "--until", "2026-05-01", "--me", "Peer")
    assert [(one["channel"], one["messages"], one["advice"]) for one in fields["channels"]] == [
        ("harbor-launch", 69, "skim"),
        ("sommerkonzert", 41, "read"),
    ]
    assert fields["quiet"] == ["honya/honya-app"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--since", "2d"), "catchup needs something to read"),
        ((*HARBOR, "--since", "nope"), "'nope' is neither a time nor a message id"),
        ((*HARBOR, "nix", "--since", "2d"), "no channel 'nix' in"),
        (("--file", "gone.jsonl", "--since", "2d"), "gone.jsonl: no such file"),
        (("--store", "gone", "--since", "2d", "--embedding-model", "none"), "store gone cannot be read"),
        ((*HARBOR, "--since", "2d", "--tz", "Mars"), "no such time zone"),
    ],
)
def test_a_user_error_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    text = catchup(*arguments, code=2)
    assert message in text
    assert "Traceback" not in text


def test_a_store_gives_its_summaries_and_a_file_what_came_after(tmp_path: Path) -> None:
    store = ("--store", tmp_path / "store", "--embedding-model", "none")
    with chat_server() as server:
        run("replay", HARBOR[1], *store, "--llm", server.url, "--out", tmp_path / "out", cwd=tmp_path)
    stored = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    first, second = (one["window"]["turns"] for one in stored[:2])
    (whole,) = digest(*store, "--since", "2026-03-01", "--until", second[0])["channels"]
    assert (whole["messages"], whole["windows"]) == (len(first) + 1, {"reused": 1, "provisional": 1})
    (summary,) = [one for one in whole["highlights"] if one["written"]]
    assert summary["text"] == "they talked about the ship."
    assert [one["id"] for one in summary["messages"]] == first
    catchup(*store, "--since", "m478", code=2)  # the last window is open, and not in the store
    (newest,) = digest(*store, *HARBOR, "--since", "m476")["channels"]
    assert (newest["messages"], newest["windows"]) == (3, {"reused": 0, "provisional": 1})


def test_a_models_items_are_shown_only_where_their_messages_hold_them() -> None:
    items = [
        {
            "kind": "action",
            "text": "Jonas sends the file.",
            "messages": [6],
            "owner": "Jonas",
            "due": None,
        },
        {"kind": "decision", "text": "Henrik pays 500 euros.", "messages": [0], "owner": None, "due": None},
        {"kind": "highlight", "text": "The briefing is over.", "messages": [99], "owner": None, "due": None},
    ]
    with chat_server(answers={"catchup": {"items": items}}) as server:
        fields = digest(*MORNING, "--llm", server.url)
        server.behaviours.extend(["not json"] * 4)
        (failed,) = digest(*MORNING, "--llm", server.url)["channels"]
    (channel,) = fields["channels"]
    assert [(one["text"], one["owner"], one["written"]) for one in channel["actions"]] == [
        ("Jonas sends the file.", "Jonas", True)
    ]
    assert channel["decisions"] == []
    assert channel["left_out"]["dropped"] == 2
    assert (failed["degraded"], ids(failed["for_me"])) == ("catchup: invalid_json", ["m443"])


@pytest.mark.parametrize(
    ("channels", "name", "found"),
    [
        (["#dock"], "#dock", "#dock"),
        (["#dock"], "dock", "#dock"),
        (["dock"], "#dock", "dock"),
        (["dock", "#dock"], "#dock", "#dock"),
        (["dock", "#dock"], "default/dock", "dock"),
    ],
)
def test_a_channel_is_named_with_or_without_a_hash(
    tmp_path: Path, channels: list[str], name: str, found: str
) -> None:
    chat = tmp_path / "chat.jsonl"
    messages = [
        {"channel": channel, "id": f"m{at}", "ts": "2026-03-02T09:00:00Z", "author": "Ana", "text": "Hello."}
        for at, channel in enumerate(channels)
    ]
    chat.write_text("".join(json.dumps(message) + "\n" for message in messages))
    fields = digest(name, "--file", chat, "--since", "2026-03-01")
    assert [one["channel"] for one in fields["channels"]] == [found]
