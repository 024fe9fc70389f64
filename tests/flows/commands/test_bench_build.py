"""`bench build` with real servers that are good, bad, gone or recorded, and with a process that is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from backscroll.flows.cli.main import main
from support.chat_server import ChatServer, chat_server
from support.commands import WORDS

FACTS = {3: "The zeppelin lands in Turin.", 5: "We agreed to paint it red."}
LEAN = {40: "It lands there on Monday, says Ana.", 45: "I bought red paint, as agreed.", 50: "Is he back?"}


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A channel of three full windows of about 20 messages; the third refers to the first."""
    path = tmp_path_factory.mktemp("chat") / "chat.jsonl"
    lines = []
    for number in range(66):
        text = FACTS.get(number) or LEAN.get(number) or f"{number} {' '.join(WORDS * 4)}"
        ts = f"2026-03-02T10:{number // 60:02}:{number % 60:02}Z"
        lines.append({"channel": "yard", "id": f"m{number}", "ts": ts, "author": "Ana", "text": text})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "no message\n")
    return path


def parts(request: dict[str, Any]) -> dict[str, str]:
    """The fenced parts of a question by name."""
    user = request["messages"][1]["content"]
    found = re.findall(r"^(<<\w+>>) (\w+) begins\n(.*?)\n\1 \2 ends$", user, re.MULTILINE | re.DOTALL)
    return {name: body for _, name, body in found}


def numbered(part: str) -> list[tuple[int, str]]:
    return [(int(number), text) for number, text in re.findall(r"^\[(\d+)\] (.*)$", part, re.MULTILINE)]


def utterances(request: dict[str, Any]) -> object:
    quotes = {"It lands there": "referential", "as agreed": "relational", "he": "referential"}
    return {
        "utterances": [
            {"messages": [number], "reason": "not said here", "type": type_, "quote": quote}
            for number, text in numbered(parts(request)["window"])
            for quote, type_ in quotes.items()
            if re.search(rf"\b{quote}\b", text)
        ]
    }


def passages(request: dict[str, Any]) -> object:
    found = re.split(r"^passage (\d+)$", parts(request)["passages"], flags=re.MULTILINE)[1:]
    pairs = zip(found[::2], found[1::2], strict=True)
    return {
        "passages": [
            {"passage": int(n), "needed": any(map(body.__contains__, FACTS.values()))} for n, body in pairs
        ]
    }


def evidence(request: dict[str, Any]) -> object:
    asked = parts(request)
    fact = next((FACTS[n] for n, lean in ((3, 40), (5, 45)) if LEAN[lean] in asked["utterance"]), None)
    return {
        "evidence": [
            {"messages": [number], "finding": "it says so", "resolves": True, "resolution": fact}
            for number, text in numbered(asked["earlier"])
            if fact and fact in text
        ]
    }


def validation(request: dict[str, Any]) -> object:
    count = len(re.findall(r"^candidate \d+$", parts(request)["candidates"], re.MULTILINE))
    verdict = {"finding": "", "sufficient": True, "explicit": True, "standalone": True, "new": True}
    return {"candidates": [{"candidate": number, **verdict} for number in range(count)]}


ANSWERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "utterances": utterances,
    "passages": passages,
    "evidence": evidence,
    "validation": validation,
}
NOTHING = {
    "utterances": {"utterances": []},
    "passages": {"passages": []},
    "evidence": {"evidence": []},
    "validation": {"candidates": []},
}


@pytest.fixture
def servers() -> Iterator[list[ChatServer]]:
    """Three models: two that find everything, and one that finds nothing."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(chat_server(models=[name], answers=dict(answers)))
            for name, answers in (("lime", ANSWERS), ("oak", ANSWERS), ("fir", NOTHING))
        ]


def arguments(chat: Path, out: Path, *sources: str) -> list[str]:
    llms = [part for source in sources for part in ("--llm", source)]
    return ["bench", "build", str(chat), "--out", str(out), "--min-history", "900", *llms]


def build(chat: Path, out: Path, *sources: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, arguments(chat, out, *sources), env=env)


def files(out: Path) -> tuple[bytes, bytes]:
    return (out / "gaps.jsonl").read_bytes(), (out / "rejected.jsonl").read_bytes()


def bodies(servers: list[ChatServer]) -> Counter[str]:
    return Counter(json.dumps(request, sort_keys=True) for server in servers for request in server.requests)


def test_a_chat_becomes_a_benchmark_that_can_be_measured(
    servers: list[ChatServer], chat: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = build(chat, out, *(server.url for server in servers))
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (out / "gaps.jsonl").read_text().splitlines()]
    gaps = [gap for row in rows for gap in row["gaps"]]
    assert [(gap["utterance"], gap["quote"], gap["type"], gap["evidence"]) for gap in gaps] == [
        ("m40", "It lands there", "referential", [["m3"]]),
        ("m45", "as agreed", "relational", [["m5"]]),
    ]
    assert [gap["resolution"] for gap in gaps] == list(FACTS.values())
    assert [row["salient"] for row in rows if row["gaps"]] == [["m40", "m45", "m50"]]
    rejected = [json.loads(line) for line in (out / "rejected.jsonl").read_text().splitlines()]
    assert [(row["utterance"], row["stage"], row["reason"]) for row in rejected] == [
        ("m50", "evidence", "unresolved")
    ]
    said = " ".join(done.output.split())
    assert "entries skipped because they are not valid messages: 1" in said
    assert re.search(r"salient by any annotator │ 3 │", said)
    assert re.search(r"unresolved │ -1 │", said)
    assert re.search(r"accepted │ alternatives of evidence: 2 │ 2 │", said)
    assert re.search(r"validation │ │ │ 0\.33 │ ", said)  # two against one
    # Only the window with gaps has asked about more than its utterances; only gaps were audited.
    stages = Counter(r["response_format"]["json_schema"]["name"] for r in servers[0].requests)
    assert stages == {"utterances": len(rows), "passages": 1, "evidence": 3, "validation": 2}
    measured = tmp_path / "measured.json"
    options = [
        "--detector",
        "rules",
        "--embedding-model",
        "none",
        "--strategy",
        "ideal",
        "--json",
        str(measured),
    ]
    result = CliRunner().invoke(main, ["bench", "memory", str(out), *options])
    assert result.exit_code == 0, result.output
    ideal = json.loads(measured.read_text())["strategies"]["ideal"]
    assert (ideal["gaps"], ideal["all"]) == (2, 1)


def test_a_killed_build_continues_without_repeating_answered_questions(
    servers: list[ChatServer], chat: Path, tmp_path: Path
) -> None:
    urls = [server.url for server in servers]
    assert build(chat, tmp_path / "whole", *urls).exit_code == 0
    asked = bodies(servers)
    assert set(asked.values()) == {1}
    for server in servers:
        server.requests.clear()
        server.delay = 0.1  # leaves time to kill between two calls
    servers[0].behaviours = ["not json"]  # an unusable answer is an answer too
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "backscroll.flows.cli.main",
        *arguments(chat, out, *urls),
        "--concurrency",
        "1",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while answers(out).total() < 6:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = answers(out).total()
    assert not (out / "gaps.jsonl").exists()
    for server in servers:
        server.requests.clear()
        server.delay = 0
    with (out / "answers" / "oak.jsonl").open("ab") as file:
        file.write(b'{"digest": "torn')
    done = build(chat, out, *urls)
    assert done.exit_code == 0, done.output
    assert files(out) == files(tmp_path / "whole")
    assert bodies(servers) < asked  # nothing new, and nothing twice
    assert bodies(servers).total() == asked.total() + 1 - kept  # one was asked twice, for its first answer
    assert f"answers kept: {kept:,}" in " ".join(done.output.split())
    assert (
        build(
            chat, out, *(f"cassette:{out}/answers/{name}.jsonl" for name in ("lime", "oak", "fir"))
        ).exit_code
        == 0
    )
    assert files(out) == files(tmp_path / "whole")


def answers(out: Path) -> Counter[str]:
    """Answers kept, by annotator."""
    folder = out / "answers"
    return Counter({path.stem: path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl")})


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        ("503", "the server failed (503)"),
        ("401", "the request was rejected (401)"),
        ("hang", "the answer took too long"),
    ],
)
def test_a_failing_annotator_ends_the_build_with_one_line_and_what_was_answered_is_kept(
    servers: list[ChatServer], chat: Path, tmp_path: Path, behaviour: str, told: str
) -> None:
    out = tmp_path / "out"
    servers[1].behaviours = ["answer", *[behaviour] * 20]
    quick = {
        "BACKSCROLL_LLM_RETRIES": "0",
        "BACKSCROLL_LLM_TIMEOUT": "0.5",
        "BACKSCROLL_LLM_CONCURRENCY": "1",
    }
    done = build(chat, out, *(server.url for server in servers), env=quick)
    assert done.exit_code == 2
    (line,) = [line for line in done.output.splitlines() if line.startswith("Error: ")]
    assert f"annotator oak: {servers[1].url}/v1: {told}" in line
    assert line.endswith("its answers are kept: run the command again to resume")
    assert "SECRET" not in done.output
    assert not (out / "gaps.jsonl").exists()
    assert answers(out)["oak"] == 1
    servers[1].behaviours = []
    servers[0].requests.clear()
    first = answers(out)["lime"]
    assert first >= 1
    assert build(chat, out, *(server.url for server in servers)).exit_code == 0
    assert answers(out)["lime"] == first + len(servers[0].requests)


@pytest.mark.parametrize("behaviour", ["not json", "truncated"])
def test_an_annotator_that_answers_badly_twice_abstains(
    servers: list[ChatServer], chat: Path, tmp_path: Path, behaviour: str
) -> None:
    servers[0].behaviours = [behaviour] * 200
    out = tmp_path / "out"
    done = build(chat, out, *(server.url for server in servers))
    assert done.exit_code == 0, done.output
    assert "abstentions: 2" in " ".join(done.output.split())  # one for each window
    assert all(not json.loads(line)["gaps"] for line in (out / "gaps.jsonl").read_text().splitlines())
    before, asked = files(out), len(servers[0].requests)
    servers[0].behaviours = []
    assert build(chat, out, *(server.url for server in servers)).exit_code == 0
    assert (files(out), len(servers[0].requests)) == (before, asked)


def test_an_interrupted_build_ends_in_an_orderly_way_and_continues_later(
    servers: list[ChatServer], chat: Path, tmp_path: Path
) -> None:
    def interrupt(request: dict[str, Any]) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return utterances(request)

    out, urls = tmp_path / "out", [server.url for server in servers]
    servers[0].answers["utterances"] = interrupt
    done = build(chat, out, *urls, env={"BACKSCROLL_LLM_CONCURRENCY": "1"})
    assert (done.exit_code, "stopped before the end: run it again to continue" in done.output) == (130, True)
    assert not (out / "gaps.jsonl").exists()
    servers[0].answers["utterances"] = utterances
    assert build(chat, out, *urls).exit_code == 0
    assert max(bodies(servers).values()) == 1
    whole = files(out)
    gone = [f"http://127.0.0.1:9#{name}" for name in ("lime", "oak", "fir")]
    assert build(chat, out, *gone).exit_code == 0  # every answer is there: no server is needed
    assert files(out) == whole


def test_a_dry_run_sends_and_writes_nothing(chat: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [*arguments(chat, out, "http://127.0.0.1:9", "http://127.0.0.1:9"), "--dry-run"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert re.search(r"windows: 2, annotators: 2", done.output)
    assert re.search(r"salience and dependence │ 4 │", " ".join(done.output.split()))
    assert not out.exists()


def test_a_build_that_cannot_start_fails_with_one_line(
    servers: list[ChatServer], chat: Path, tmp_path: Path
) -> None:
    url, out = servers[0].url, tmp_path / "out"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "gaps.jsonl").touch()
    (tmp_path / "empty.jsonl").touch()
    for command, told in (
        (arguments(chat, out, url, url), "two annotators are 'lime'"),
        (arguments(chat, out, *[url] * 4), "4 annotators: use --llm one to three times"),
        (arguments(chat, out, f"{url}#elm"), "has no model 'elm': it offers lime"),
        (arguments(chat, out, "http://127.0.0.1:9"), "no connection: start the server"),
        (arguments(chat, elsewhere, url), "contains a benchmark not built here"),
        (arguments(tmp_path / "empty.jsonl", out, url), "the files contain no messages"),
        ([*arguments(chat, out, url), "--min-history", "9000"], "no full window has 9,000 tokens of history"),
    ):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 2, command
        assert told in done.output
        assert "Traceback" not in done.output


def test_a_key_is_sent_only_to_its_own_server(servers: list[ChatServer], chat: Path, tmp_path: Path) -> None:
    keys = {servers[0].url: "first", servers[2].url: "third"}
    env = {"BACKSCROLL_LLM_API_KEYS": json.dumps(keys), "BACKSCROLL_LLM_API_KEY": "everywhere"}
    assert build(chat, tmp_path / "out", *(server.url for server in servers), env=env).exit_code == 0
    assert [server.keys for server in servers] == [{"Bearer first"}, {"Bearer none"}, {"Bearer third"}]
