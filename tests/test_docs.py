"""Every example in the docs is run."""

from __future__ import annotations

import ast
import doctest
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import backscroll
from backscroll.connectors.files.recorded_gaps import RecordedDetector
from backscroll.flows.settings.describe import markdown
from backscroll.operators.memory.registry import names
from backscroll.operators.messages import parse_message
from backscroll.operators.summary.record import Summary

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_sessions_of_a_page_print_what_it_says(page: Path) -> None:
    session = "\n".join(block for block in blocks(page, "python") if ">>>" in block)
    parsed = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
    result = doctest.DocTestRunner().run(parsed)
    assert result.failed == 0
    assert result.attempted == session.count(">>> ")


@pytest.mark.parametrize(
    "module",
    [
        "messages",
        "language.tokens",
        "language.sentences",
        "index.bm25",
        "index.postings",
        "index.fusion",
        "gaps.rules",
        "memory.registry",
    ],
)
def test_the_examples_of_a_module_print_what_it_says(module: str) -> None:
    found = doctest.testmod(import_module(f"backscroll.operators.{module}"))
    assert (found.failed, found.attempted > 0) == (0, True)


def test_the_figure_in_the_docs_is_the_code() -> None:
    (figure,) = [
        block for block in blocks(ROOT / "docs" / "how-it-works.md", "python") if "op.input" in block
    ]
    code = (ROOT / "flows" / "summarize.py").read_text(encoding="utf-8")
    shown, lines = ([line.strip() for line in text.splitlines()] for text in (figure, code))
    start = lines.index(shown[0])
    assert shown == lines[start : start + len(shown)]


def test_the_message_of_the_readme_is_a_message() -> None:
    (example,) = blocks(ROOT / "README.md", "json")
    assert parse_message(example.encode()).text == "Shipping on Monday, as agreed."


def test_the_recorded_gaps_of_the_docs_can_be_read(tmp_path: Path) -> None:
    (example,) = blocks(ROOT / "docs" / "how-it-works.md", "json")
    path = tmp_path / "detected.jsonl"
    path.write_text(example)
    (gap,) = RecordedDetector.read(path).gaps["general", 7]
    assert (gap.utterance_index, gap.quote, gap.keywords) == (3, "as agreed", ("Ana", "shipping"))


def test_the_record_of_the_docs_reads_and_writes_itself_and_names_every_field() -> None:
    page = ROOT / "docs" / "summary-record.md"
    (example,) = blocks(page, "json")
    record = Summary.from_json(example.encode())
    assert json.loads(record.to_json()) == json.loads(example)
    text = page.read_text(encoding="utf-8").split("| field | meaning |")[1]
    fields = set(re.findall(r"^\| `(\w+)", text, re.MULTILINE))
    assert fields == json.loads(example).keys() - {"version", "namespace", "channel"}


def test_the_memory_strategies_of_the_docs_are_those_of_the_engine() -> None:
    table = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8").split("| strategy | what the memory")[1]
    rows = re.findall(r"^\| `([\w-]+)` \|", table.partition("\n\n")[0], re.MULTILINE)
    assert tuple(rows) == names()
    options = re.findall(r"`--strategy ([^`]+)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert [option.replace("\\", "") for option in options] == ["|".join(names())]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_pages_lead_to_a_file_and_a_heading_of_it() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^):]+)\)", page.read_text(encoding="utf-8")):
            name, _, anchor = target.partition("#")
            linked = page.parent / name if name else page
            assert linked.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(linked), f"{page.name}: {target}"


def test_the_repository_paths_of_the_docs_exist() -> None:
    tops = "backscroll|benchmarks|connectors|docs|flows|k8s|operators|samples|tests|training|web"
    named = {
        path: page.name
        for page in PAGES
        for path in re.findall(rf"`((?:{tops})/[^` ]*)`", page.read_text(encoding="utf-8"))
    }
    assert "operators/language/lexicons/" in named
    assert [f"{page}: {path}" for path, page in named.items() if not any(ROOT.glob(path))] == []


def test_the_page_of_settings_is_what_the_command_prints() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page.partition("\n\n| setting")[2] == markdown().partition("| setting")[2]
    assert all(row.rsplit("|", 2)[1].strip() for row in markdown().splitlines()), "each has a meaning"


def test_the_ten_lines_of_the_library_print_what_the_page_says(tmp_path: Path) -> None:
    page = ROOT / "docs" / "library.md"
    (code,) = [block for block in blocks(page, "python") if "run_main" in block]
    (chat,) = blocks(page, "json")
    (tmp_path / "chat.jsonl").write_text(chat, encoding="utf-8")
    (printed,) = re.findall(
        r"no message:\n\n```\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == printed


def test_the_public_names_are_exactly_those_of_the_page() -> None:
    rows = (ROOT / "docs" / "library.md").read_text(encoding="utf-8").split("| name | what it is for |")[1]
    names = [name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])]
    assert sorted(backscroll.__all__) == sorted(names)
    for name in names:
        assert getattr(backscroll, name).__name__ == name


def test_the_public_names_are_declared_for_type_checkers_as_they_are_imported() -> None:
    tree = ast.parse((ROOT / "backscroll" / "__init__.py").read_text(encoding="utf-8"))
    (checking,) = [node for node in tree.body if isinstance(node, ast.If)]
    declared = {
        alias.name: node.module
        for node in checking.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert declared == backscroll._HOMES
