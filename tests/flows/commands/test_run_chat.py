"""The engine on live chat: the installed command against small servers on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.request import urlopen

import lancedb
import pytest
from click.testing import CliRunner

from backscroll.flows.cli.main import main
from support.brokers import Broker, free_port
from support.commands import BACKSCROLL, WORDS
from support.local_server import until
from support.matrix_server import BOT, TOKEN, MatrixServer
from support.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer

HARBOR = "!harbor:example.org"
SLACK = {"BACKSCROLL_SLACK_APP_TOKEN": APP_TOKEN, "BACKSCROLL_SLACK_BOT_TOKEN": BOT_TOKEN}


def words(number: int) -> str:
    return " ".join(WORDS[(number + step) % len(WORDS)] for step in range(20)) + f" {number}."


@contextmanager
def engine(
    platform: str, store: Path, settings: Mapping[str, str], *, to_file: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    """The running command; it is killed when the context ends if it still runs."""
    command = [BACKSCROLL, "run", "--from", platform, "--store", store, "--window", "200"]
    command += ["--out", store.parent / "out.jsonl"] if to_file else []
    environment = {
        **os.environ,
        "BACKSCROLL_HTTP_PORT": "0",
        "BACKSCROLL_EMBEDDING_MODEL": "none",
        **settings,
    }
    log: IO[bytes]
    with (store.parent / "log").open("ab") as log:
        running = subprocess.Popen(command, env=environment, stderr=log, cwd=store.parent)
        try:
            yield running
        finally:
            running.kill()
            running.wait()


def summaries(store: Path) -> dict[str, Any]:
    """The last record of each summary."""
    path = store.parent / "out.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {record["summary_id"]: record for record in map(json.loads, lines)}


def turns(store: Path) -> list[tuple[int, str, str, bool]]:
    """The `seq`, id, text and deletion of every recorded turn."""
    rows = lancedb.connect(store).open_table("turns").to_arrow().to_pylist()
    return sorted((row["seq"], row["id"], row["text"], row["deleted"]) for row in rows)


def is_ready(port: int) -> bool:
    with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/readyz") as page:
        return page.read() == b"ok: 1 of 1 partitions are read\n"
    return False


def log(store: Path) -> str:
    return (store.parent / "log").read_text()


def test_a_killed_engine_on_slack_loses_and_repeats_nothing_and_answers_in_the_channel(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    with SlackServer() as slack:
        slack.page = 100
        settings = {**SLACK, "BACKSCROLL_SLACK_API_URL": f"{slack.url}/api/"}
        slack.channel("C1", "general")
        slack.channel("C2", "private")
        posts = [slack.post("C1", "U1", words(number)) for number in range(20)]
        with engine("slack", store, settings):
            until(lambda: summaries(store), "the past is summarised", 60)
            posts += [slack.post("C1", "U2", words(number)) for number in range(20, 30)]
            until(lambda: f"envelope-{len(posts)}" in slack.acked, "all is acknowledged")
        posts += [slack.post("C1", "U1", words(number)) for number in range(30, 40)]
        slack.edit("C1", posts[1], "We meet at the quay instead.")
        slack.delete("C1", posts[2])
        slack.post("C2", "U2", "The secret berth is nine.")
        posts.append(slack.post("C1", "U2", "We decided to ship on Monday. Ana, can you tell the pilots?"))
        with engine("slack", store, settings) as running:
            until(lambda: slack.sockets and posts[34] in str(summaries(store)), "the rest is summarised", 60)
            until(lambda: turns(store)[2][3], "the deletion has come", 30)
            slack.command("C1", "U1", "1d")
            until(lambda: slack.answers, "the question is answered", 30)
            running.send_signal(signal.SIGTERM)
            assert running.wait(15) == 0, log(store)
    recorded = turns(store)
    assert [seq for seq, *_ in recorded] == list(range(len(recorded)))
    assert [id_ for _, id_, *_ in recorded] == posts[: len(recorded)]
    assert recorded[1][2] == "We meet at the quay instead."
    assert words(2) not in str(recorded)
    answer = "\n".join(part["text"] for part in slack.answers)
    assert "We decided to ship on Monday." in answer
    assert "can you tell the pilots?" in answer
    assert "<https://acme.slack.com/archives/C1/p" in answer
    assert "secret" not in answer
    assert "Traceback" not in log(store)


@pytest.mark.parametrize("own_broker", ["noida"], indirect=True)
def test_matrix_is_summarised_into_topics_and_answers_in_the_room(tmp_path: Path, own_broker: Broker) -> None:
    store = tmp_path / "store"
    with MatrixServer() as matrix:
        matrix.room(HARBOR, "Harbor", ana="Ana", ben="Ben")
        matrix.room("!other:example.org", "Other", cem="Cem")
        matrix.say("!other:example.org", "cem", "The secret berth is nine.")
        posts = [matrix.say(HARBOR, "ana", words(number)) for number in range(20)]
        matrix.edit(HARBOR, "ana", posts[1], "We meet at the quay instead.")
        settings = {"BACKSCROLL_MATRIX_HOMESERVER": matrix.url, "BACKSCROLL_MATRIX_ACCESS_TOKEN": TOKEN}
        port = free_port()
        settings |= {"BACKSCROLL_HTTP_PORT": str(port), "BACKSCROLL_KAFKA_BROKERS": own_broker.address}
        for topic in ("summaries", "dead-letters"):
            own_broker.create(topic)
        with engine("matrix", store, settings, to_file=False) as running:
            first, second = own_broker.read("summaries", 2, seconds=60)
            assert (first.key, second.key) == (
                b"default/Harbor:0-6:backscroll",
                b"default/Harbor:7-13:backscroll",
            )
            matrix.say(HARBOR, "ben", "We decided to ship on Monday. Ana, can you tell the pilots?")
            until(lambda: is_ready(port), "it is ready")
            matrix.say(HARBOR, "ana", "!catchup")  # since her last message
            until(lambda: matrix.events[-1][1]["sender"] == BOT, "the question is answered", 30)
            running.send_signal(signal.SIGTERM)
            assert running.wait(15) == 0, log(store)
    assert [id_ for _, id_, *_ in turns(store)] == posts[:14]
    assert turns(store)[1][2] == "We meet at the quay instead."
    body = matrix.events[-1][1]["content"]["body"]
    assert "We decided to ship on Monday. Ana, can you tell the pilots?" in body
    assert "secret" not in body
    assert "Traceback" not in log(store)


@pytest.mark.parametrize(
    ("platform", "missing"),
    [
        ("slack", "BACKSCROLL_SLACK_APP_TOKEN and BACKSCROLL_SLACK_BOT_TOKEN"),
        ("matrix", "BACKSCROLL_MATRIX_HOMESERVER and BACKSCROLL_MATRIX_ACCESS_TOKEN"),
    ],
)
def test_a_missing_token_gives_a_one_line_error(platform: str, missing: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["run", "--from", platform, "--store", str(tmp_path / "store")])
    assert done.exit_code == 2
    assert done.stderr == f"Error: --from {platform} needs {missing}: set it in the environment\n"


@pytest.mark.parametrize(("platform", "package"), [("slack", "slack_sdk"), ("matrix", "nio")])
def test_a_missing_extra_gives_a_one_line_error(
    platform: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.startswith((f"backscroll.connectors.chat.{platform}.", package)):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    done = CliRunner().invoke(main, ["run", "--from", platform, "--store", str(tmp_path / "store")])
    assert done.exit_code == 2
    assert f"pip install 'backscroll[{platform}]'" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("platform", ["slack", "matrix"])
def test_a_missing_module_of_backscroll_is_not_reported_as_a_missing_extra(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"backscroll.connectors.chat.{platform}.live"
    monkeypatch.setitem(sys.modules, module, None)
    done = CliRunner().invoke(main, ["run", "--from", platform, "--store", str(tmp_path / "store")])
    assert isinstance(done.exception, ModuleNotFoundError)
    assert done.exception.name == module
    assert "pip install" not in done.output


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--from", "slack", "--workers", "2"], "--from runs in a single process"),
        (["--out", "summaries.jsonl"], "--out needs --from"),
        (["--from", "slack"], "run needs a --store"),
    ],
)
def test_options_that_do_not_go_together_are_named(arguments: list[str], line: str) -> None:
    done = CliRunner().invoke(main, ["run", *arguments])
    assert done.exit_code == 2
    assert line in done.stderr
