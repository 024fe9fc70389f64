"""`backscroll serve` as a command: the errors for a user's mistakes, and a store that replay wrote."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from backscroll.connectors.lancedb.reader import StoreReader, recorded_fingerprint
from backscroll.flows.assembly.embedder import make_fingerprint
from backscroll.flows.cli.main import main
from backscroll.flows.commands.serve import make_catch_up
from backscroll.flows.settings.settings import Settings
from backscroll.web.library import Library
from support.chat_server import chat_server
from support.commands import BACKSCROLL

MESSAGE = {
    "channel": "general",
    "id": "m1",
    "ts": "2026-03-02T09:14:00Z",
    "author": "Ana",
    "text": "Shipping.",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    more = {**MESSAGE, "id": "m0", "ts": "2026-03-02T09:13:00Z", "text": "Shipping on Monday, then."}
    replay(folder, folder / "store", more, MESSAGE)
    return folder / "store"


def replay(folder: Path, store: Path, *messages: dict[str, str]) -> None:
    """Record each message as a window, as `backscroll replay` does; existing ones stay."""
    flush = {"op": "flush", "channel": "general"}
    lines = [one for message in messages for one in (message, {**flush, "ts": message["ts"]})]
    (folder / "chat.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    read = [folder / "chat.jsonl", "--store", store, "--embedding-model", "none"]
    done = CliRunner().invoke(main, ["replay", *map(str, read), "--out", str(folder / "out.jsonl")])
    assert done.exit_code == 0, done.output


def mistake(*arguments: object) -> str:
    done = CliRunner().invoke(main, ["serve", *map(str, arguments)])
    assert done.exit_code == 2
    return done.output.strip()


def test_a_missing_store_gets_a_one_line_error(tmp_path: Path) -> None:
    assert mistake("--store", tmp_path / "no") == (
        f"Error: store {tmp_path / 'no'} cannot be read: there is no such directory"
    )


def test_an_address_open_to_other_machines_requires_an_access_file(store: Path) -> None:
    assert mistake("--store", store, "--host", "0.0.0.0") == (
        "Error: --host 0.0.0.0 can be reached from other machines: "
        "list who may read what in an --access file, or use 127.0.0.1"
    )


def test_a_port_in_use_gets_a_one_line_error(store: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert mistake("--store", store, "--port", port).startswith(
            f"Error: cannot listen on 127.0.0.1:{port}: "
        )


@contextmanager
def serving(store: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of the command over a store, and its process, which is killed at the end."""
    command = [str(BACKSCROLL), "serve", "--store", str(store), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            address = re.search(r"http://\S+/", said)
            assert address is not None, said
            yield address.group(), process
        finally:
            process.kill()


def next_card(stream: Any) -> Any:
    """The next summary from a stream of events."""
    while True:
        line = stream.readline().decode()
        assert line, "the stream has ended"
        if line.startswith("data: "):
            return json.loads(line.removeprefix("data: "))


def test_a_card_arrives_while_replay_writes_and_an_open_page_does_not_delay_the_end(tmp_path: Path) -> None:
    store = tmp_path / "store"
    replay(tmp_path, store, MESSAGE)
    with serving(store) as (address, process):
        with urlopen(f"{address}api/channels/default/general/events", timeout=30) as stream:
            assert next_card(stream)["summary"]["summary"] == "09:14 Ana: Shipping."
            later = {**MESSAGE, "id": "m2", "ts": "2026-03-02T10:02:00Z", "text": "We decided to wait."}
            replay(tmp_path, store, MESSAGE, later)
            assert next_card(stream)["summary"]["summary"] == "10:02 Ana: We decided to wait."
            with urlopen(f"{address}api/catchup?since=2026-03-02&me=Ana", timeout=30) as answer:
                caught_up = json.load(answer)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == -signal.SIGTERM
        assert process.stderr is not None
        assert process.stderr.read() == ""
    (channel,) = caught_up["channels"]
    assert (channel["messages"], [one["text"] for one in channel["decisions"]]) == (
        2,
        ["We decided to wait."],
    )


@pytest.fixture
def reading(store: Path) -> tuple[Settings, Library]:
    settings = Settings(store=str(store), embedding_model="none", summary_model="tiny")
    reader = StoreReader(store, recorded_fingerprint(store, make_fingerprint(settings, None)), None)
    return settings, Library(reader, None, "backscroll")


def highlights(settings: Settings, library: Library) -> tuple[list[tuple[str, bool]], str | None]:
    """The lines of a catch-up, whether the model of the settings wrote them, and what is missing."""
    catch_up = make_catch_up(settings, library, None)
    (digest,) = catch_up.missed(library.store.channels(None), since="2026-03-01").digests
    return [(item.text, item.written) for item in digest.items], digest.degraded


def test_a_model_writes_the_catch_up_once_and_rules_replace_it_when_its_server_is_unreachable(
    reading: tuple[Settings, Library],
) -> None:
    settings, library = reading
    item = {"kind": "highlight", "text": "Shipping on Monday.", "messages": [0], "owner": None, "due": None}
    with chat_server(answers={"catchup": {"items": [item]}}) as server:
        settings = settings.model_copy(update={"llm": server.url})
        assert highlights(settings, library) == ([("Shipping on Monday.", True)], None)
        catch_up, entries = make_catch_up(settings, library, None), library.store.channels(None)
        for _ in range(3):
            catch_up.missed(entries, since="2026-03-01")
        assert len(server.requests) == 2  # one of `highlights`
    found, degraded = highlights(settings, library)
    assert (found[0][1], degraded) == (False, "catchup: connection")


def test_an_unusable_model_is_reported_at_startup(store: Path) -> None:
    assert mistake("--store", store, "--llm", "vllm:some/model") == (
        "Error: serve cannot load a model itself: set --llm to the URL of a server"
    )
    with chat_server() as server:
        assert mistake("--store", store, "--llm", server.url, "--summary-model", "large").endswith(
            "has no model 'large': it offers tiny"
        )
