"""`backscroll bench absences` on a small annotated file, and on the annotated absences of the project."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from backscroll.benchmarks.absences.command import CatchUp, bench_absences
from backscroll.flows.cli.main import main
from backscroll.flows.commands.bench_absences import make_catch_up
from backscroll.flows.settings.settings import Settings
from backscroll.operators.acts.classifier import WEIGHTS
from backscroll.operators.catchup.digest import ChannelDigest, DigestItem
from backscroll.operators.catchup.digest_json import to_json
from backscroll.operators.catchup.period import Endpoint, Period
from backscroll.operators.messages import Message, parse_message
from support.building import turn
from support.chat_server import chat_server

SAMPLES = Path(__file__).parents[3] / "samples"
SAID = [
    ("Cem", "Good morning, see you next week."),
    ("Ana", "We ship the ferry timetable on Friday."),
    ("Ben", "I will print the posters."),
    ("Ben", "Who paints the ferry?"),
    ("Ana", "The harbour office closes at noon."),
    ("Ben", "Dora has painted the ferry."),  # after the absence
]
ABSENCE = {
    "absence": "ferry-1",
    "dialogue": "ferry",
    "first_id": "m1",
    "last_id": "m4",
    "reader": "Cem",
    "points": [{"ids": ["m1"], "weight": 3}, {"ids": ["m4"], "weight": 2}],
    "decisions": [{"ids": ["m1"]}],
    "actions": [{"ids": ["m2"], "owner": "Ben", "due": None, "state": "open"}],
    "questions": [{"id": "m3", "answers": [], "state": "open"}],
    "for_reader": [],
}
LINES = [("decision", [0], None), ("action", [1], "Ben"), ("question", [2], None)]


def write(folder: Path, **changed: object) -> Path:
    """The annotated file, with the dialogue beside it; `changed` replaces fields of the absence."""
    (folder / "dialogues").mkdir()
    rows = [
        {"channel": "ferry", "id": f"m{n}", "ts": f"2026-03-02T09:0{n}:00Z", "author": author, "text": text}
        for n, (author, text) in enumerate(SAID)
    ]
    (folder / "dialogues" / "ferry.jsonl").write_text("\n".join(map(json.dumps, rows)))
    file = folder / "away.jsonl"
    file.write_text(json.dumps({**ABSENCE, **changed}) + "\n")
    return file


def answers(lines: Sequence[tuple[str, list[int], str | None]]) -> dict[str, object]:
    """What the model of a chat server says: the text of a line is its first message."""
    items = [
        {"kind": kind, "text": SAID[1 + at[0]][1], "messages": at, "owner": owner, "due": None}
        for kind, at, owner in lines
    ]
    return {"catchup": {"items": items}}


def measure(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["bench", "absences", *map(str, arguments)])


def test_the_figures_of_a_small_file_are_known(tmp_path: Path) -> None:
    file, out = write(tmp_path), tmp_path / "out.json"
    with chat_server(answers=answers(LINES)) as server:
        done = measure(file, "--llm", server.url, "--json", out, "--max-tokens", 300)
        (request,) = server.requests
    assert done.exit_code == 0, done.output
    assert "away.jsonl: 1 absence, 300 tokens each" in done.stdout
    fields = json.loads(out.read_text())
    assert fields["files"] == {str(file): fields["all"]}
    assert fields["max_tokens"] == 300
    one = {"right": 1, "lines": 1, "found": 1, "items": 1, "precision": 1.0, "recall": 1.0}
    nothing = {"right": 0, "lines": 0, "found": 0, "precision": None}
    assert fields["all"] == {
        "absences": 1,
        "degraded": 0,
        "kinds": {
            "for_me": {**nothing, "items": 0, "recall": None},
            "decisions": one,
            "actions": one,
            "questions": one,
            "highlights": {**nothing, "items": 2, "recall": 0.0},
            "acts": {**one, "right": 3, "lines": 3, "found": 3, "items": 3},
        },
        "owners": {"right": 1, "lines": 1},
        "answered": {"shown": 0, "lines": 1},
        "points": {"found": 3, "weight": 5, "share": 0.6},
        "ids_per_line": {"lines": 3, "mean": 1.0, "max": 1},
    }
    asked = json.dumps(request["messages"])
    assert [text in asked for _, text in SAID] == [False, True, True, True, True, False]


def test_a_line_with_more_than_three_message_ids_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = write(tmp_path), tmp_path / "out.json"

    def citing_everything(settings: Settings, max_tokens: int, acts: Path | None) -> CatchUp:
        def catch_up(messages: Sequence[Message], **period: str) -> list[ChannelDigest]:
            (made,) = make_catch_up(settings, max_tokens, acts)(messages, **period)
            turns = tuple(turn(n, SAID[n][1]) for n in range(1, 5))
            return [replace(made, sections={"highlights": (DigestItem("highlight", "All.", turns),)})]

        return catch_up

    monkeypatch.setattr("backscroll.flows.commands.bench_absences.make_catch_up", citing_everything)
    done = measure(file, "--json", out)
    assert done.exit_code == 1
    assert done.stderr == "ferry-1 has a line with 4 message ids: a line may cite 3 at most\n"
    assert json.loads(out.read_text())["all"]["ids_per_line"] == {"lines": 1, "mean": 4.0, "max": 4}


def test_weights_of_acts_are_read_for_each_dialogue(tmp_path: Path) -> None:
    file, acts = write(tmp_path), tmp_path / "acts"
    acts.mkdir()
    missing = measure(file, "--acts", acts)
    assert missing.exit_code == 2
    assert missing.stderr.count("\n") == 1
    assert f"no weights {acts / 'ferry.json'}: train them with --leave-out ferry" in missing.stderr

    weights = json.loads(WEIGHTS.read_text())
    for variant in ("vectors", "words"):
        for kind, model in weights[variant]["kinds"].items():
            model.update(bias=20.0 if kind == "decision" else -20.0, weights={}, vector=None)
    (acts / "ferry.json").write_text(json.dumps(weights))
    done = measure(file, "--acts", acts, "--json", tmp_path / "out.json")
    assert done.exit_code == 0, done.output
    kinds = json.loads((tmp_path / "out.json").read_text())["all"]["kinds"]
    assert (kinds["decisions"]["lines"], kinds["actions"]["lines"]) == (4, 0)


def test_catch_ups_that_a_model_failed_to_make_are_counted(tmp_path: Path) -> None:
    with chat_server(answers=answers(LINES), behaviours=["not json"] * 4) as server:
        done = measure(write(tmp_path), "--llm", server.url)
    assert done.exit_code == 0, done.output
    assert "by rules because the model failed: 1 of 1" in done.stdout


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"dialogue": "boat"}, "no dialogue boat.jsonl in "),
        ({"decisions": [{"ids": ["m9"]}]}, "ferry.jsonl has no message 'm9', which ferry-1 names"),
        ({"first_id": "m4", "last_id": "m1"}, "ferry.jsonl: ferry-1 ends before it starts"),
        ({"points": [{"ids": ["m1"]}]}, "away.jsonl:1: not an annotated absence: no 'weight'"),
        ({"questions": None}, "away.jsonl:1: not an annotated absence: another layout"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, changed: dict[str, object], error: str
) -> None:
    done = measure(write(tmp_path, **changed))
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert error in done.stderr


def test_a_catch_up_is_the_one_that_the_command_makes(tmp_path: Path) -> None:
    rows = (SAMPLES / "harbor.jsonl").read_text("utf-8").splitlines()[:165]
    (tmp_path / "chat.jsonl").write_text("\n".join(rows), "utf-8")
    period = ("--since", "m053", "--until", "m165", "--me", "Mateo", "--max-tokens", "400")
    shown = CliRunner().invoke(
        main, ["catchup", "--file", str(tmp_path / "chat.jsonl"), *period, "--as", "json"]
    )
    messages = [parse_message(row.encode()) for row in rows]
    digests = make_catch_up(Settings(), 400)(messages, since="m053", until="m165", me="Mateo")
    assert json.loads(shown.stdout)["channels"] == as_json(digests)


def as_json(digests: Sequence[ChannelDigest]) -> list[dict[str, Any]]:
    period = Period(Endpoint(digests[0].first.ts), None)
    channels: list[dict[str, Any]] = json.loads(to_json(digests, period, time_zone="UTC", me=None))[
        "channels"
    ]
    return channels


PLAYBACK = """#!{python}
import json, pathlib, sys
folder = pathlib.Path({folder!r})
option = dict(zip(sys.argv[2::2], sys.argv[3::2]))
taken = folder / "taken"
place = len(taken.read_bytes())
made = json.loads((folder / "made.json").read_text())[place]
assert (option["--until"], option["--me"]) == (made["until"], made["me"])
taken.write_bytes(b"." * (place + 1))
print(json.dumps(made))
"""


@pytest.mark.parametrize("name", ["dev-meetings", "dev-pairs", "dev-slack"])
def test_the_figures_are_those_of_the_reference_script(shared: Path, tmp_path: Path, name: str) -> None:
    """The script is given the same catch-ups by a program that plays them back."""
    bench, made = shared / "bench", list[dict[str, Any]]()
    dialogues = [bench / "dev" / "dialogues", bench / "train" / "dialogues", SAMPLES]
    catch_up = make_catch_up(Settings(embedding_model="none"), 400)

    def recorded(
        messages: Sequence[Message], *, since: str, until: str, me: str, dialogue: str
    ) -> Sequence[ChannelDigest]:
        digests = catch_up(messages, since=since, until=until, me=me, dialogue=dialogue)
        made.append({"until": until, "me": me, "channels": as_json(digests)})
        return digests

    file, out = bench / "away" / f"{name}.jsonl", tmp_path / "out.json"
    assert bench_absences([file], dialogues, recorded, max_tokens=400, json=out) == []
    (tmp_path / "made.json").write_text(json.dumps(made))
    (tmp_path / "taken").touch()
    program = tmp_path / "backscroll"
    program.write_text(PLAYBACK.format(python=sys.executable, folder=str(tmp_path)))
    program.chmod(0o700)
    script = [bench / "away" / "score.py", file, bench / "away" / "dialogues", *dialogues]
    options = ["--backscroll", program, "--json", tmp_path / "reference.json"]
    subprocess.run([sys.executable, *map(str, [*script, *options])], check=True, capture_output=True)

    figures = json.loads(out.read_text())["all"]
    kinds = figures["kinds"]
    mine = {
        f"{kind} {theirs}": kinds[kind][ours]
        for kind in ("for_me", "decisions", "actions", "questions", "highlights")
        for theirs, ours in (("right", "right"), ("lines", "lines"), ("found", "found"), ("gold", "items"))
    }
    mine |= {
        "owners right": figures["owners"]["right"],
        "owners asked": figures["owners"]["lines"],
        "questions answered": figures["answered"]["shown"],
        "points found": figures["points"]["found"],
        "points weight": figures["points"]["weight"],
        "lines": figures["ids_per_line"]["lines"],
    }
    reference = json.loads((tmp_path / "reference.json").read_text())
    assert {key: count for key, count in mine.items() if count} == {
        key: count for key, count in reference.items() if count
    }
