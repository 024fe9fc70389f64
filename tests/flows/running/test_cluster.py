"""The engine on several processes that are started one by one, and on changing numbers of processes."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from backscroll.flows.running.recovery import Disk, init_recovery, spread_recovery
from support.brokers import free_port, refused_sockets, running
from support.serving import Engine, Service, differing, flush, post, service

pytestmark = refused_sockets
CHANNELS = [f"c{number}" for number in range(6)]


def chat(part: int) -> list[dict[str, Any]]:
    """60 messages over all channels, which are flushed at the end."""
    posts = [post(CHANNELS[n % 6], f"m{part}-{n}", at=100 * part + n) for n in range(60)]
    return posts + [flush(channel, at=100 * part + 60) for channel in CHANNELS]


def sent(parts: int) -> Counter[str]:
    return Counter({f"m{part}-{number}": 1 for part in range(parts) for number in range(60)})


def disk(made: Service, process: int) -> Path:
    return made.recovery.with_name(f"recovery-{process}")


def start_both(made: Service, stack: ExitStack) -> tuple[Engine, Engine]:
    addresses = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    first, second = (
        stack.enter_context(
            made.engine(
                *("--window", 64, "--process-id", number, "--addresses", addresses),
                strategy="sparse",
                recovery=disk(made, number),
            )
        )
        for number in range(2)
    )
    return first, second


def test_changing_the_number_of_processes_loses_nothing(tmp_path: Path) -> None:
    """Two processes with a disk each, one of which is killed; both again; one; three of one command."""
    with running("noida", tmp_path / "broker") as broker, service(broker, tmp_path) as made:
        made.send(*chat(0))
        for number in range(2):
            init_recovery(disk(made, number), 8, Disk(number, 2))
        with ExitStack() as stack:
            first, second = start_both(made, stack)
            first.until(lambda: made.turns() == sent(1), "the first part")
            made.send(*chat(1))
            second.kill()
            code, lines = first.ended(20)
            assert code not in (0, None)
        with ExitStack() as stack:
            first, second = start_both(made, stack)
            first.until(lambda: made.turns() == sent(2), "the second part")
            first.process.terminate()
            second.stop()
            assert first.ended(15.0)[0] == 0
        spread_recovery([made.recovery, disk(made, 0), disk(made, 1)], 1)
        for part, options in ((2, ()), (3, ("--workers", 3))):
            made.send(*chat(part))
            with made.engine("--window", 64, *options, strategy="sparse") as engine:
                engine.until(lambda part=part: made.turns() == sent(part + 1), "the next part")  # type: ignore[misc]
                engine.stop()
        assert differing(made.summaries()) == []
        assert made.letters() == []
        assert "Traceback (most recent call last):" not in lines, "of the process whose peer was killed"
