from __future__ import annotations

from backscroll.operators.memory.search import search
from support.building import HashingEmbedder, history_of, windows_of

TEXTS = [
    ["The pump leaks.", "Lunch at noon.", "Ana has the red key."],
    ["The valve is fine.", "Oil on the floor."],
    ["The ship leaves in May."],
    ["The pump is new, and the valve of the pump too."],
]


def found(
    query: str, *, dense: bool = False, before: int = 7, limit: int = 20
) -> list[tuple[int, tuple[str, ...]]]:
    embedder = HashingEmbedder() if dense else None
    history = history_of(windows_of(TEXTS), embedder=embedder).as_of(before)
    return [(hit.turn.seq, hit.words) for hit in search(history, query, embedder, limit=limit)]


def test_by_words_only_chunks_with_a_query_word_are_found_each_by_its_best_turn() -> None:
    assert found("RED key?") == [(2, ("red", "key"))]
    assert found("lunch or oil") == [(4, ("oil",)), (1, ("lunch",))]
    assert found("submarine") == []


def test_with_vectors_the_rankings_are_fused_and_every_chunk_is_ranked() -> None:
    hits = found("The pump is new", dense=True)
    assert hits[0] == (6, ("the", "pump", "is", "new"))
    assert len(hits) == 4


def test_nothing_is_found_after_the_cut_beyond_the_limit_or_without_words() -> None:
    assert found("ship May", before=5) == []
    assert len(found("the pump", dense=True, limit=2)) == 2
    assert found("  ") == []
    assert found("?!") == []
