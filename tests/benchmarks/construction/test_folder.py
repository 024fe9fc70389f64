from __future__ import annotations

import json
from pathlib import Path

import pytest

from backscroll.benchmarks.construction.folder import BenchmarkFolder, read_dialogues
from backscroll.benchmarks.construction.run import choose_windows
from backscroll.benchmarks.data.dialogues import Dialogue
from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.connectors.files.formats import check_file
from backscroll.operators.messages import ChannelKey
from support.building import sized, window


def post(id_: str, text: str, **more: object) -> dict[str, object]:
    ts = f"2026-03-02T10:00:{more.pop('second', 0):02}Z"
    return {"channel": "yard", "id": id_, "ts": ts, "author": "Ana", "text": text, **more}


def written(folder: Path, *messages: dict[str, object]) -> Path:
    path = folder / "chat.jsonl"
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return path


def prepared(tmp_path: Path, *messages: dict[str, object]) -> dict[str, Dialogue]:
    path = written(tmp_path, *messages)
    dialogues, _ = read_dialogues([(path, check_file(path))])
    return BenchmarkFolder(tmp_path / "out").prepare(dialogues)


def test_edits_and_deletions_are_applied_to_a_dialogue(tmp_path: Path) -> None:
    prepared(
        tmp_path,
        post("a", "first", reply_to="z", author={"id": "u1", "name": "Ana", "bot": True}),
        post("b", "second", second=1),
        post("c", "third", second=2),
        {**post("b", "changed", second=3), "op": "edit"},
        {**post("c", "", second=4), "op": "delete"},
    )
    lines = (tmp_path / "out" / "dialogues" / "yard.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {**post("a", "first", author={"id": "u1", "name": "Ana", "bot": True}), "reply_to": "z"},
        post("b", "changed", second=1),
    ]


def test_channels_with_the_same_name_in_two_namespaces_stay_separate(tmp_path: Path) -> None:
    names = prepared(
        tmp_path,
        post("a", "x"),
        post("a", "y", namespace="acme"),
        post("a", "z", channel="yard@acme"),
        post("a", "w", channel="../yard"),
    )
    assert list(names) == ["yard", "yard@acme", "yard%40acme", "..%2Fyard"]
    assert {path.stem for path in (tmp_path / "out" / "dialogues").iterdir()} == set(names)
    assert [dialogue.turns[0].text for dialogue in names.values()] == ["x", "y", "z", "w"]


def test_invalid_entries_are_counted_and_do_not_affect_others(tmp_path: Path) -> None:
    path = written(tmp_path, post("a", "x"), {"channel": "yard"}, post("b", "y"), post("b", "another text"))
    dialogues, refused = read_dialogues([(path, "messages")])
    assert [turn.text for turn in dialogues["yard"]] == ["x", "y"]
    assert refused == 1


def dialogue(windows: int) -> Dialogue:
    cut = [window([sized(number, 1000)], number) for number in range(windows)]
    return Dialogue(ChannelKey("default", "d"), None, tuple(cut))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("most", "chosen"),
    [(None, [3, 4, 5, 6, 7, 8, 9, 10, 11]), (3, [3, 6, 9]), (4, [3, 5, 7, 9]), (20, list(range(3, 12)))],
)
def test_windows_with_enough_history_are_chosen_evenly_spread(most: int | None, chosen: list[int]) -> None:
    places = choose_windows({"d": dialogue(12)}, min_history=3000, most=most)
    assert [place.window.ref.index for place in places] == chosen
    assert all(place.history_tokens == 1000 * place.window.ref.index for place in places)


def test_the_error_for_too_little_history_names_the_longest() -> None:
    with pytest.raises(BenchmarkError, match=r"^no full window has 7,000 tokens .* has 2,000\): lower"):
        choose_windows({"d": dialogue(3)}, min_history=7000, most=None)
