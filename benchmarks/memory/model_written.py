"""Memories that a language model writes: the paper's two summarising baselines (section 5.1, figure 11).

`incremental` brings one running summary up to date with every window. `hierarchical` summarises
segments of 4,096 tokens that overlap by 1,024, merges the summaries in groups of 4,096 tokens, and so
on until one is left. Both hold at most the budget of tokens; they paraphrase, so a judge has to say what
is in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from backscroll.benchmarks.judge.asking import CountedModel, question
from backscroll.benchmarks.judge.judge import turn_lines
from backscroll.operators.language.sentences import sentences
from backscroll.operators.language.tokens import count
from backscroll.operators.llm.prompts import indented
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window, WindowRef
from backscroll.operators.summary.stage import WrittenSummary

__all__ = ["WRITTEN", "WrittenMemory", "groups", "hierarchical", "incremental", "segments", "within"]

WRITTEN = ("incremental", "hierarchical")


SEGMENT, OVERLAP = 4096, 1024


@dataclass(frozen=True, slots=True)
class WrittenMemory:
    """The text before a window, and the seconds of model time that it took at that window.

    `incomplete` says that a call failed on the way, so that something of the history is not in it.
    """

    text: str
    seconds: float = 0.0
    incomplete: bool = False


async def incremental(
    model: CountedModel,
    windows: Sequence[Window],
    wanted: Collection[int],
    budget: int,
    step: Callable[[], None] = lambda: None,
) -> dict[int, WrittenMemory]:
    """The memory before each wanted window of a dialogue; `step` is called after each update.

    After a failed call the summary stays as it was, and all memories from there on are incomplete.
    """
    memory, found = WrittenMemory(""), dict[int, WrittenMemory]()
    for index, window in enumerate(windows[: max(wanted, default=-1) + 1]):
        if index in wanted:
            found[index] = memory
        if index == max(wanted):
            break
        parts = {"messages": turn_lines(window.turns)}
        if memory.text:
            parts = {"summary so far": [indented(memory.text)], **parts}
        name = "running_summary" if memory.text else "segment_summary"
        text, seconds = await _write(model, name, parts, window.ref, budget)
        if text is None:
            memory = WrittenMemory(memory.text, seconds, incomplete=True)
        else:
            memory = WrittenMemory(text, seconds, memory.incomplete)
        step()
    return found


async def hierarchical(
    model: CountedModel, windows: Sequence[Window], index: int, budget: int
) -> WrittenMemory:
    """The memory before a window of a dialogue, built from scratch.

    What histories share is written once, and its time counts for each.
    """
    ref, turns = windows[index].ref, [turn for window in windows[:index] for turn in window.turns]
    level: list[str] = []
    seconds, incomplete = 0.0, False

    async def write(name: str, questions: Iterable[tuple[Mapping[str, Sequence[str]], WindowRef]]) -> None:
        """Fill the level with the answers."""
        nonlocal level, seconds, incomplete
        calls = [_write(model, name, parts, subject, budget) for parts, subject in questions]
        answers = await asyncio.gather(*calls)
        level = [text for text, _ in answers if text is not None]
        seconds += sum(took for _, took in answers)
        incomplete = incomplete or len(level) < len(answers)

    cut = list(segments(turns))
    places = (replace(ref, first_seq=segment[0].seq, last_seq=segment[-1].seq) for segment in cut)
    await write("segment_summary", zip(({"messages": turn_lines(part)} for part in cut), places, strict=True))
    while len(level) > 1:
        *merged, last = groups(level)
        alone = last if len(last) == 1 else []
        many = merged if alone else [*merged, last]
        await write("merged_summary", ((_summaries(group), ref) for group in many))
        level += alone
    return WrittenMemory("".join(level), seconds, incomplete)


def _summaries(group: Sequence[str]) -> dict[str, list[str]]:
    return {f"summary {place}": [indented(text)] for place, text in enumerate(group, start=1)}


async def _write(
    model: CountedModel, name: str, parts: Mapping[str, Sequence[str]], ref: WindowRef, budget: int
) -> tuple[str | None, float]:
    """A text within the budget, None if there is none, and the seconds that it took."""
    prompt = question(
        name,
        parts,
        model=model.name,
        subject=ref,
        max_tokens=budget * 5 // 4 + 64,  # the JSON around it; a cut answer is asked for again with more
        max_words=int(budget * 0.6),
    )
    answer = await model.ask(prompt, WrittenSummary)
    return None if answer.value is None else within(answer.value.summary, budget), answer.seconds


def segments(
    turns: Sequence[Turn], *, size: int = SEGMENT, overlap: int = OVERLAP
) -> Iterator[Sequence[Turn]]:
    """Runs of whole turns of at most `size` tokens, a longer turn alone; each begins within the last.

    The overlap is what fits `overlap` tokens at the end of the run before. Where a run ends does not
    depend on what comes after it, so a growing history keeps its segments.
    """
    start = 0
    while start < len(turns):
        end, tokens = start, 0
        while end < len(turns) and (end == start or tokens + turns[end].tokens <= size):
            tokens += turns[end].tokens
            end += 1
        yield turns[start:end]
        if end == len(turns):
            return
        room = min(overlap, size - turns[end].tokens)  # the next run brings something new
        first, shared = end, 0
        while first - 1 > start and shared + turns[first - 1].tokens <= room:
            first -= 1
            shared += turns[first].tokens
        start = first


def groups(texts: Sequence[str], *, size: int = SEGMENT) -> Iterator[list[str]]:
    """Consecutive texts of at most `size` tokens together, but at least two, as long as there are two."""
    group, tokens = list[str](), 0
    for text in texts:
        needed = count(text)
        if len(group) >= 2 and tokens + needed > size:
            yield group
            group, tokens = [], 0
        group.append(text)
        tokens += needed
    if group:
        yield group


def within(text: str, budget: int) -> str:
    """The text up to the last sentence that fits the budget; a longer first sentence is cut at a word."""
    if count(text) <= budget:
        return text
    fitting = [end for _, end in sentences(text) if count(text[:end]) <= budget]
    if fitting:
        return text[: fitting[-1]]
    kept = list[str]()
    for word in text.split():
        if count(" ".join([*kept, word])) > budget:
            break
        kept.append(word)
    return " ".join(kept)
