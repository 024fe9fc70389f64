"""The health pages of real engines when a process, a step, the model or the broker does not work."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.brokers import Broker, free_port, refused_sockets, running, wait_for
from support.chat_server import ChatServer, chat_server
from support.commands import run
from support.serving import Engine, Service, flush, post, service

pytestmark = refused_sockets
STALLING = Path(__file__).resolve().parents[2] / "support" / "stalling.py"
STALL_SECONDS = float(os.environ.get("STALL_SECONDS", "3"))  # what is measured takes as long


class Pages:
    """The pages that an engine serves."""

    def __init__(self) -> None:
        self.port = free_port()

    def __call__(self, path: str) -> tuple[int, str]:
        """Status and body; 0 and the error if nothing answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return int(answer.status), answer.read().decode()
        except HTTPError as err:
            return err.code, err.read().decode()
        except OSError as err:
            return 0, str(err)

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        families = text_string_to_metric_families(self("/metrics")[1])
        return sum(one.value for family in families for one in family.samples if one.name == name)


class Lone(NamedTuple):
    """An engine of one process with a slow model; a message can make one of its steps hang."""

    broker: Broker
    model: ChatServer
    made: Service
    engine: Engine
    pages: Pages


@contextmanager
def served(made: Service, *options: object, **settings: object) -> Iterator[tuple[Engine, Pages]]:
    """An engine that is ready, and its pages."""
    pages = Pages()
    settings |= {"http_port": pages.port, "stall_seconds": STALL_SECONDS}
    with made.engine(*options, **settings) as engine:  # type: ignore[arg-type]
        engine.until(lambda: pages("/readyz")[0] == 200, "readiness", seconds=150)
        yield engine, pages


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lone]:
    folder = tmp_path_factory.mktemp("lone")
    with (
        running("noida", folder / "broker") as broker,
        chat_server(delay=3600.0) as server,
        service(broker, folder, partitions=1) as made,
        served(made, "--llm", server.url, program=(sys.executable, STALLING), pending_windows=1) as (
            engine,
            pages,
        ),
    ):
        yield Lone(broker, server, made, engine, pages)


def until(look: Callable[[], bool], what: str) -> float:
    """Wait for a condition; returns the seconds that it took."""
    began = time.monotonic()
    wait_for(look, seconds=90, what=what)
    return time.monotonic() - began


def test_readiness_follows_the_broker_and_liveness_does_not(lone: Lone) -> None:
    lone.broker.stop()
    gone = until(lambda: lone.pages("/readyz")[0] == 503, "red")
    assert lone.pages("/readyz") == (503, "not ok: the brokers do not answer\n")
    assert lone.pages("/livez") == (200, "ok: the brokers do not answer\n")
    lone.broker.start()
    back = until(lambda: lone.pages("/readyz") == (200, "ok: 1 of 1 partitions are read\n"), "green")
    print(f"\nbroker away: /readyz red after {gone:.1f} s, green {back:.1f} s after its return")


def test_a_slow_model_that_throttles_the_source_is_not_a_stall(lone: Lone) -> None:
    lone.made.send(post("a", "m0"), flush("a"))
    lone.engine.until(lambda: lone.pages.metric("backscroll_pending_windows") == 1, "a window in flight")
    lone.made.send(*(post("a", f"m{number}") for number in range(1, 9)))
    began, seen = time.monotonic(), set[int]()

    def long_enough() -> bool:
        seen.update(lone.pages(page)[0] for page in ("/livez", "/readyz"))
        return time.monotonic() - began > STALL_SECONDS + 1

    lone.engine.until(long_enough, "a while", seconds=STALL_SECONDS + 60)
    assert seen == {200}
    assert lone.pages.metric("backscroll_messages_total") == 2, "the source is throttled"
    assert lone.pages.metric("backscroll_summaries_total") == 0


def test_a_stuck_step_fails_liveness_but_the_pages_still_answer(lone: Lone) -> None:
    sent = time.monotonic()
    lone.made.send(post("b", "m0", "stand still, says the secret"))
    lone.model.released.set()  # the source goes on
    until(lambda: lone.pages("/livez")[0] == 503, "red")
    seconds = time.monotonic() - sent
    status, why = lone.pages("/livez")
    assert (status, why.count("\n")) == (503, 1)
    assert why.startswith("not ok: stalled: process 0 has closed no epoch for ")
    assert "secret" not in why + lone.pages("/metrics")[1] + lone.pages("/readyz")[1]
    assert lone.pages("/other") == (404, "not found: use /livez, /readyz, /metrics\n")
    print(f"\na step that stands, stall_seconds {STALL_SECONDS}: /livez red after {seconds:.1f} s")


def test_a_paused_process_of_two_fails_liveness_until_it_continues(tmp_path: Path) -> None:
    """The model is unreachable as well, which degrades summaries but fails no check."""
    absent = f"http://127.0.0.1:{free_port()}"
    named = {"gap_model": "tiny", "summary_model": "tiny", "llm_retries": 0}
    with (
        running("noida", tmp_path / "broker") as broker,
        service(broker, tmp_path) as made,
        served(made, "--workers", 2, "--llm", absent, **named) as (engine, pages),
    ):
        channels = [f"c{number}" for number in range(6)]
        made.send(*(post(channel, "m0") for channel in channels), *map(flush, channels))
        engine.until(lambda: made.turns().total() == 6, "every message")
        assert pages("/readyz") == (200, "ok: 4 of 4 partitions are read\n")
        assert pages("/livez")[0] == 200
        engine.until(lambda: pages.metric("backscroll_degraded_summaries_total") == 6, "both processes' sum")
        assert pages.metric("backscroll_messages_total") == 12
        assert abs(pages.metric("backscroll_epoch_progress_timestamp_seconds") - time.time()) < 10
        children = Path(f"/proc/{engine.process.pid}/task/{engine.process.pid}/children").read_text().split()
        last = int(children[-1])
        stopped = time.monotonic()
        os.kill(last, signal.SIGSTOP)
        try:
            made.send(*(post(channel, "m1") for channel in channels))
            until(lambda: pages("/livez")[0] == 503, "red")
            seconds = time.monotonic() - stopped
            assert seconds > STALL_SECONDS - 1  # of an epoch that was closing
            assert "has closed no epoch for" in pages("/livez")[1]
        finally:
            os.kill(last, signal.SIGCONT)
        until(lambda: pages("/livez")[0] == 200, "green")
        made.send(*map(flush, channels))
        engine.until(lambda: made.turns().total() == 12, "the rest")
    print(f"\na stopped process, stall_seconds {STALL_SECONDS}: /livez red after {seconds:.1f} s")


def test_a_port_in_use_gives_a_one_line_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environment = {**os.environ, "BACKSCROLL_HTTP_PORT": str(port)}
        done = run("run", "--store", tmp_path / "store", check=False, env=environment)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"Error: http_port: 127.0.0.1:{port} cannot be used: Address already in use: set another port, or 0 "
        "for none"
    ]
