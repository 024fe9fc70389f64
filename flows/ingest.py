"""The dataflow of a backfill: it records history, without summaries."""

from __future__ import annotations

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import Source
from bytewax.outputs import Sink

from backscroll.operators.engine import Engine
from backscroll.operators.messages import DeadLetter, Received
from backscroll.operators.runtime.feed import fed
from backscroll.operators.steps import admit, cut_windows, raise_failure, record_history, settle
from backscroll.operators.stream.windows import Window

__all__ = ["ingest_flow"]


def ingest_flow(
    engine: Engine, source: Source[Received], left_open: Sink[tuple[str, Window]], rejects: Sink[DeadLetter]
) -> Dataflow:
    """Record the windows of messages in the store; windows still open at the end go to `left_open`."""
    flow = Dataflow("backscroll_ingest")
    messages = op.input("messages", flow, fed(source, engine.feed))
    admitted = admit("turns", messages, engine)
    windows = cut_windows("windows", admitted.turns, engine)
    recorded = settle("recorded", record_history("history", windows, engine), engine)
    still_open = op.filter("still_open", recorded, lambda item: not item[1].ref.final)
    op.output("left_open", still_open, left_open)
    op.output("rejects", admitted.rejected, rejects)
    if engine.runtime.raises:
        raise_failure("failure", recorded, admitted.rejected, engine=engine)
    return flow
