"""`backscroll serve` as a command: what a user's mistakes get, and a store that replay wrote."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from commands import BACKSCROLL

from flows.cli import main

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
    messages = [MESSAGE, {"op": "flush", "channel": "general", "ts": "2026-03-02T09:15:00Z"}]
    (folder / "chat.jsonl").write_text("".join(json.dumps(one) + "\n" for one in messages))
    read = [folder / "chat.jsonl", "--store", folder / "store", "--embedding-model", "none"]
    done = CliRunner().invoke(main, ["replay", *map(str, read), "--out", str(folder / "out.jsonl")])
    assert done.exit_code == 0, done.output
    return folder / "store"


def mistake(*arguments: object) -> str:
    done = CliRunner().invoke(main, ["serve", *map(str, arguments)])
    assert done.exit_code == 2
    return done.output.strip()


def test_a_store_that_is_none_is_told_in_one_line(tmp_path: Path) -> None:
    assert mistake("--store", tmp_path / "no") == (
        f"Error: store {tmp_path / 'no'} cannot be read: there is no such directory"
    )


def test_another_address_needs_to_know_who_may_read(store: Path) -> None:
    assert mistake("--store", store, "--host", "0.0.0.0") == (
        "Error: --host 0.0.0.0 can be reached from other machines: "
        "name who may read what in an --access FILE, or leave it at 127.0.0.1"
    )


def test_a_port_in_use_is_told_in_one_line(store: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert mistake("--store", store, "--port", port).startswith(
            f"Error: cannot listen on 127.0.0.1:{port}: "
        )


def test_a_store_of_replay_is_served_until_the_signal(store: Path) -> None:
    command = [str(BACKSCROLL), "serve", "--store", str(store), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        address = re.search(r"http://\S+/", said)
        assert address is not None, said
        with urlopen(f"{address.group()}api/channels/default/general/summaries", timeout=10) as answer:
            (card,) = json.load(answer)
        with urlopen(
            f"{address.group()}c/default/general/events", timeout=10
        ):  # an open page does not hold it
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 130
        rest = process.stderr.read()
    assert card["summary"]["summary"] == "09:14 Ana: Shipping."
    assert rest == ""
