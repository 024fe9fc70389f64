from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.language.tokens import count, decode, encode


def test_tokens_are_those_of_cl100k_base() -> None:
    assert encode("hello world") == [15339, 1917]
    assert count("hello world") == 2
    assert count("") == 0


def test_text_that_looks_like_a_special_token_is_plain_text() -> None:
    assert encode("<|endoftext|>") == [27, 91, 8862, 728, 428, 91, 29]
    assert decode(encode("<|endoftext|>")) == "<|endoftext|>"


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
@settings(database=None, deadline=None)
def test_decoding_all_tokens_returns_the_text(text: str) -> None:
    assert decode(encode(text)) == text
    assert count(text) == len(encode(text))


def test_an_incomplete_character_at_either_end_is_dropped() -> None:
    tokens = encode("a🧭b")
    assert len(tokens) == 5
    assert [decode(tokens[:end]) for end in range(6)] == ["", "a", "a", "a", "a🧭", "a🧭b"]
    assert [decode(tokens[start:]) for start in range(5)] == ["a🧭b", "🧭b", "b", "b", "b"]


@pytest.mark.parametrize("setting", ["an empty folder", "no caching", "nothing"])
def test_the_encoding_loads_without_a_network(tmp_path: Path, setting: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DATA_GYM_CACHE_DIR"}
    environment |= {"TMPDIR": str(tmp_path), "https_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    environment.pop("TIKTOKEN_CACHE_DIR", None)
    if setting == "an empty folder":
        environment["TIKTOKEN_CACHE_DIR"] = str(tmp_path / "cache")
    elif setting == "no caching":
        environment["TIKTOKEN_CACHE_DIR"] = ""
    script = "from backscroll.operators.language.tokens import encode; print(encode('hello world'))"
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (run.stdout, run.returncode) == ("[15339, 1917]\n", 0), run.stderr[-300:]
