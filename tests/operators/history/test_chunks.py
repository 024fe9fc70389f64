from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.history.chunks import Chunk, Chunker, token_span
from backscroll.operators.language.tokens import decode, encode
from backscroll.operators.messages import Turn
from support.building import sized, turn

texts = st.text(st.sampled_from("ab c.\n🧭漢é👩🏽‍🚀"), max_size=40) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=20
)


def spans(chunks: tuple[Chunk, ...]) -> list[tuple[int, int]]:
    return [(chunk.start, chunk.end) for chunk in chunks]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (4, [(0, 4)]),
        (32, [(0, 32)]),
        (33, [(0, 33)]),
        (96, [(0, 96)]),
        (97, [(0, 97)]),
        (128, [(0, 128)]),
        (129, [(0, 128), (96, 129)]),
        (224, [(0, 128), (96, 224)]),
        (225, [(0, 128), (96, 224), (192, 225)]),
    ],
)
def test_chunks_of_128_tokens_start_every_96(tokens: int, expected: list[tuple[int, int]]) -> None:
    assert spans(Chunker().chunk([sized(0, tokens)])) == expected


def test_a_full_window_of_1024_tokens_has_eleven_chunks() -> None:
    chunks = Chunker().chunk([sized(seq, 64) for seq in range(16)])
    assert len(chunks) == 11
    assert spans(chunks)[-1] == (960, 1024)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (4, [(0, 4)]),
        (5, [(0, 4), (3, 5)]),
        (7, [(0, 4), (3, 7)]),
        (8, [(0, 4), (3, 7), (6, 8)]),
    ],
)
def test_a_chunk_of_only_shared_tokens_is_not_made(tokens: int, expected: list[tuple[int, int]]) -> None:
    assert spans(Chunker(size=4, overlap=1).chunk([sized(0, tokens)])) == expected


def test_without_overlap_chunks_are_adjacent() -> None:
    assert spans(Chunker(size=5, overlap=0).chunk([sized(0, 10)])) == [(0, 5), (5, 10)]
    assert spans(Chunker(size=5, overlap=0).chunk([sized(0, 11)])) == [(0, 5), (5, 10), (10, 11)]


def test_a_chunk_names_the_turns_it_covers_and_holds_their_text() -> None:
    turns = [turn(7, "the pump leaks"), turn(8, "again", author="Ben"), turn(9, "ok")]
    assert [t.tokens for t in turns] == [6, 4, 4]
    assert Chunker(size=6, overlap=2).chunk(turns) == (
        Chunk(0, 6, 7, 7, "Ana: the pump leaks\n"),
        Chunk(4, 10, 7, 8, " leaks\nBen: again\n"),
        Chunk(8, 14, 8, 9, " again\nAna: ok\n"),
    )


def test_a_character_cut_between_chunks_is_whole_in_the_one_that_holds_all_of_it() -> None:
    compass = turn(0, "go 🧭 on")
    pieces = [decode([token]) for token in encode(compass.rendered)]
    assert pieces == ["Ana", ":", " go", " ", "", "", " on", "\n"]
    assert [(c.start, c.end, c.text) for c in Chunker(size=5, overlap=3).chunk([compass])] == [
        (0, 5, "Ana: go "),
        (2, 7, " go 🧭 on"),
        (4, 8, " on\n"),
    ]


@given(
    texts=st.lists(texts, min_size=1, max_size=8),
    size=st.integers(1, 12),
    overlap=st.integers(0, 11),
)
@settings(database=None, deadline=None)
def test_chunks_cover_the_window_in_steps_and_name_the_turns_they_cover(
    texts: list[str], size: int, overlap: int
) -> None:
    if overlap >= size:
        overlap = size - 1
    turns = [turn(seq + 5, text) for seq, text in enumerate(texts)]
    tokens = [token for t in turns for token in encode(t.rendered)]
    owners = [t.seq for t in turns for _ in range(t.tokens)]
    chunks = Chunker(size, overlap).chunk(turns)

    assert chunks[0].start == 0
    assert chunks[-1].end == len(tokens)
    for before, after in pairwise(chunks):
        assert after.start == before.end - overlap
        assert after.end > before.end
    for chunk in chunks:
        assert 0 < chunk.end - chunk.start <= size
        assert chunk.end - chunk.start == size or chunk is chunks[-1]
        touched = owners[chunk.start : chunk.end]
        assert (chunk.first_seq, chunk.last_seq) == (touched[0], touched[-1])
        assert chunk.text == decode(tokens[chunk.start : chunk.end])

    rest = [tokens[c.start + overlap : c.end] for c in chunks[1:]]
    joined = tokens[chunks[0].start : chunks[0].end] + [token for part in rest for token in part]
    assert joined == tokens
    assert decode(joined) == "".join(t.rendered for t in turns)


@given(counts=st.lists(st.integers(4, 70), min_size=1, max_size=10))
@settings(database=None, deadline=None, max_examples=40)
def test_a_windows_chunks_depend_only_on_its_own_turns(counts: list[int]) -> None:
    turns = [sized(seq, tokens) for seq, tokens in enumerate(counts)]
    ends = list(accumulate(counts))
    at_once = Chunker().chunk(turns)
    for length in range(1, len(turns) + 1):
        whole = [c for c in at_once if c.end - c.start == 128 and c.end <= ends[length - 1]]
        assert list(Chunker().chunk(turns[:length]))[: len(whole)] == whole


@pytest.mark.parametrize(("size", "overlap"), [(128, 128), (32, 40), (128, -1), (0, 0)])
def test_an_overlap_outside_the_chunk_is_refused(size: int, overlap: int) -> None:
    reason = rf"^chunk overlap is {overlap}: it must be at least 0 and below the size, {size}$"
    with pytest.raises(ValueError, match=reason):
        Chunker(size, overlap)


def covered(t: Turn, start: int, end: int) -> str | None:
    span = token_span(t, start, end)
    return None if span is None else t.text[slice(*span)]


def test_a_token_span_is_the_verbatim_text_under_the_tokens() -> None:
    t = turn(0, "the pump leaks")
    assert [decode([token]) for token in encode(t.rendered)] == ["Ana", ":", " the", " pump", " leaks", "\n"]
    assert token_span(t, 0, 6) == (0, 14)
    assert covered(t, 2, 4) == "the pump"
    assert covered(t, 3, 4) == " pump"
    assert covered(t, 4, 6) == " leaks"


def test_tokens_of_only_the_author_or_line_break_cover_no_text() -> None:
    t = turn(0, "the pump leaks")
    assert token_span(t, 0, 2) is None
    assert token_span(t, 5, 6) is None
    assert token_span(turn(0, ""), 0, 3) is None


@pytest.mark.parametrize("text", ["go 🧭 on", "漢字かな", "👩🏽‍🚀!", "日本語🧭日本語"])
def test_adjacent_token_spans_cover_a_text_of_long_characters_once(text: str) -> None:
    t = turn(0, text, author="アナ")
    for cut in range(t.tokens + 1):
        assert (covered(t, 0, cut) or "") + (covered(t, cut, t.tokens) or "") == text
    assert "".join(covered(t, at, at + 1) or "" for at in range(t.tokens)) == text


@given(text=texts, author=st.sampled_from(["Ana", "Bo B", "アナ", "🧭"]), data=st.data())
@settings(database=None, deadline=None)
def test_a_token_span_is_the_characters_that_end_in_its_tokens(
    text: str, author: str, data: st.DataObject
) -> None:
    t = turn(0, text, author=author)
    end = data.draw(st.integers(0, t.tokens))
    start = data.draw(st.integers(0, end))

    tokens = encode(t.rendered)
    bytes_of = tiktoken.get_encoding("cl100k_base").decode_single_token_bytes
    token_ends = [0, *accumulate(len(bytes_of(token)) for token in tokens)]
    character_ends = accumulate(len(character.encode()) for character in t.rendered)
    ending = [n for n, at in enumerate(character_ends) if token_ends[start] < at <= token_ends[end]]
    expected = [n for n in (n - len(author) - 2 for n in ending) if 0 <= n < len(text)]

    assert token_span(t, start, end) == ((expected[0], expected[-1] + 1) if expected else None)
