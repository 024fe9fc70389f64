from __future__ import annotations

import json
from itertools import islice, pairwise
from pathlib import Path

from backscroll.benchmarks.cost.synthetic_channel import grown_windows, heaps_exponent, read_dialogues
from backscroll.operators.index.bm25 import tokenize
from support.commands import run

SAMPLE = Path(__file__).resolve().parents[3] / "samples" / "harbor.jsonl"


def test_a_generated_channel_uses_new_words_and_its_vocabulary_grows_ever_more_slowly() -> None:
    dialogues = read_dialogues([SAMPLE])
    windows = list(grown_windows(dialogues, 150_000))
    assert windows == list(grown_windows(dialogues, 150_000)), "the same for the same seed"
    turns = [turn for window in windows for turn in window.turns]
    first = len(dialogues[0])
    assert [turn.text for turn in turns[:first]] == [message.text for message in dialogues[0]]
    assert [turn.seq for turn in turns] == list(range(len(turns)))
    sizes, seen = [], set[str]()
    for number, turn in enumerate(turns):
        seen.update(tokenize(turn.text))
        if number % first == first - 1:
            sizes.append(len(seen))
    assert len(sizes) >= 3
    growth = [later - earlier for earlier, later in pairwise(sizes)]
    assert all(0 < new < sizes[0] for new in growth)
    assert growth[-1] < growth[0]
    assert 0.5 < heaps_exponent(dialogues) < 0.9


def test_every_generated_turn_has_its_token_count_and_times_never_go_back() -> None:
    windows = list(islice(grown_windows(read_dialogues([SAMPLE]), 120_000), 110))
    times = [turn.ts for window in windows for turn in window.turns]
    assert times == sorted(times)
    assert max(window.tokens for window in windows) <= 1024


def test_the_command_measures_and_writes_the_figures(tmp_path: Path) -> None:
    report, plot = tmp_path / "history.json", tmp_path / "history.svg"
    options = ["--tokens", "2e4", "--windows", "2", "--json", str(report), "--plot", str(plot)]
    run("bench", "history", SAMPLE, *options)
    (size,) = json.loads(report.read_text())["sizes"]
    assert 20_000 <= size["tokens"] < 22_000
    assert size["measured_windows"] == 2
    assert size["cost"].keys() >= {"append", "sparse_query", "dense_query", "memory_backscroll", "cold_load"}
    assert plot.read_text().startswith("<svg")


def test_sizes_that_are_not_numbers_are_refused_with_one_line() -> None:
    done = run("bench", "history", SAMPLE, "--tokens", "many", check=False)
    assert done.returncode == 2
    assert "many should be numbers of at least 10000, like 1e5,1e6" in done.stderr
