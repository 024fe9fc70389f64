"""`backscroll` with a step that does not return: a message `stand still` blocks the worker's thread.

The product has no such step. This program puts one before its own, and is otherwise the command.
"""

from __future__ import annotations

import time
from typing import Any

import backscroll.operators.steps
from backscroll.flows.cli.main import main

_PARSE = backscroll.operators.steps._parse


def _parse_or_stand(engine: Any, received: Any) -> Any:
    if b"stand still" in received.raw:
        time.sleep(3600)
    return _PARSE(engine, received)


if __name__ == "__main__":
    backscroll.operators.steps._parse = _parse_or_stand
    main()
