"""The dataflow of the paper's figure, from messages to summaries."""

from __future__ import annotations

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import Source
from bytewax.outputs import Sink

from backscroll.operators.engine import Engine
from backscroll.operators.messages import DeadLetter, Received
from backscroll.operators.runtime.feed import fed
from backscroll.operators.steps import (
    admit,
    build_memory,
    cut_windows,
    detect_gaps,
    raise_failure,
    record_history,
    summarize,
)
from backscroll.operators.summary.record import Emission

__all__ = ["summarize_flow"]


def summarize_flow(
    engine: Engine,
    source: Source[Received],
    sink: Sink[tuple[str, Emission]],
    rejects: Sink[DeadLetter],
    debug: Sink[tuple[str, Emission]] | None = None,
) -> Dataflow:
    """Turn messages into one summary per window; invalid messages go to `rejects`.

    Edits and deletions change the history, and summaries that used a changed message are emitted again.
    `debug` also receives the summaries. If a step fails, the input ends and the run raises Bytewax's
    `BytewaxRuntimeError`. Its chain of causes contains the original error.
    """
    flow = Dataflow("backscroll")
    messages = op.input("messages", flow, fed(source, engine.feed))
    admitted = admit("turns", messages, engine)  # validate, key by channel, give seq
    windows = cut_windows("windows", admitted.turns, engine)  # closed windows, and changes of earlier ones
    recorded = record_history("history", windows, engine)  # chunk, embed, index, store
    gapped = detect_gaps("gaps", recorded, engine)  # what the window presupposes
    recalled = build_memory("memory", gapped, engine)  # as-of retrieval, refinement, accumulation
    written = summarize("summaries", recalled, engine)  # stored, then emitted
    op.output("sink", written.summaries, sink)
    if debug is not None:
        op.output("debug", written.summaries, debug)
    letters = op.merge("dead_letters", admitted.rejected, written.failed)
    op.output("rejects", letters, rejects)
    if engine.runtime.raises:
        raise_failure("failure", written.summaries, letters, engine=engine)
    return flow
