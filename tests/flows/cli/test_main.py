"""The commands' options are made from the settings, and listing the commands is fast."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from backscroll.benchmarks.memory.compared import COMPARED
from backscroll.connectors.files.formats import FORMATS
from backscroll.flows.cli.main import main
from backscroll.flows.cli.options import FLAGS, SettingOption
from backscroll.flows.settings.settings import Settings
from backscroll.operators.memory.registry import names
from support.pace import slowness

HEAVY = ("torch", "lancedb", "vllm", "sentence_transformers", "nltk", "pydantic", "bytewax", "rich", "numpy")
LOADED_BY_SETTINGS = ("pydantic",)


def commands(
    command: click.Command = main, context: click.Context | None = None
) -> Iterator[tuple[str, list[click.Parameter]]]:
    """Every command by its path, with its parameters as shown by its help."""
    context = click.Context(command, context, info_name=command.name if context else "backscroll")
    yield context.command_path, command.get_params(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, context)


PARAMETERS = [(path, parameter) for path, parameters in commands() for parameter in parameters]
SETTINGS = {(path, option.name): option for path, option in PARAMETERS if isinstance(option, SettingOption)}
OPTIONS = [(path, option) for path, option in PARAMETERS if isinstance(option, click.Option)]


def help_extra(option: click.Option) -> dict[str, Any]:
    return dict(option.get_help_extra(click.Context(main)))


@pytest.mark.parametrize(
    ("arguments", "loaded", "seconds"),
    [([], (), 0.3), (["topics"], (), 0.3), (["replay"], LOADED_BY_SETTINGS, 1.0)],
    ids=["backscroll", "topics", "replay"],
)
@pytest.mark.timing
def test_help_imports_nothing_heavy_and_answers_at_once(
    arguments: list[str], loaded: tuple[str, ...], seconds: float
) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "backscroll.flows.cli.main", *arguments, "--help"]
    # The first run may compile modules, and another process may take the processor: the best of five counts.
    fastest = float("inf")
    for _ in range(5):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("Usage: ")
        imports = [line.split("|") for line in done.stderr.splitlines() if line.startswith("import time:")][
            1:
        ]
        modules = {name.strip() for _, _, name in imports}
        assert {name.split(".")[0] for name in modules} & set(HEAVY) == set(loaded)
        assert "backscroll.operators.language.language_files" not in modules  # nor word lists
        took = sum(int(own.removeprefix("import time:")) for own, _, _ in imports) / 1e6
        fastest = min(fastest, took / slowness())
        if fastest < seconds:
            break
    assert fastest < seconds


@pytest.mark.parametrize(("path", "name"), SETTINGS)
def test_an_option_describes_its_setting(path: str, name: str) -> None:
    field, option = Settings.model_fields[name], SETTINGS[path, name]
    assert option.help == field.description
    extra = help_extra(option)
    assert extra["envvars"] == (f"BACKSCROLL_{name.upper()}",)
    assert extra.get("default") == (None if field.default is None else str(field.default))
    assert option.opts == [FLAGS.get(name, f"--{name.replace('_', '-')}")]
    assert SecretStr not in (field.annotation, *getattr(field.annotation, "__args__", ())), "seen in `ps`"


def test_every_option_that_sets_a_setting_is_made_from_it() -> None:
    by_hand = {
        (path, option.name)
        for path, option in OPTIONS
        if option.name in Settings.model_fields and not isinstance(option, SettingOption)
    }
    assert by_hand == set()
    assert {name for _, name in SETTINGS} >= FLAGS.keys()


def test_every_option_has_a_help_text_that_is_a_sentence() -> None:
    bad = [
        (path, option.name, option.help)
        for path, option in OPTIONS
        if not option.help or not option.help.endswith(".") or "[default" in option.help
    ]
    assert bad == []


@pytest.mark.parametrize(
    ("name", "flags", "type_", "shown"),
    [
        ("strategy", ["--strategy"], click.Choice, None),
        ("budget", ["--budget"], click.IntRange, "x>=1"),
        ("idle_minutes", ["--idle"], click.FloatRange, "x>0"),
        ("web_port", ["--port"], click.IntRange, "0<=x<=65535"),
        ("recovery", ["--recovery"], click.Path, None),
        ("store", ["--store"], type(click.STRING), None),
        ("reissue", ["--reissue"], type(click.BOOL), None),
    ],
)
def test_an_option_has_the_type_of_its_setting(
    name: str, flags: list[str], type_: type, shown: str | None
) -> None:
    option = SettingOption(name, required=False)
    assert (option.opts, type(option.type), help_extra(option).get("range")) == (flags, type_, shown)


def given(option: click.Option, *arguments: str) -> Any:
    """The value that a command receives for an option."""
    command = click.Command("try", params=[option], callback=lambda **options: options[option.name])
    return command.main(list(arguments), standalone_mode=False)


@pytest.mark.parametrize("name", ["strategy", "budget", "kafka_brokers", "reissue"])
def test_an_option_not_given_does_not_hide_the_settings_file(name: str) -> None:
    assert given(SettingOption(name, required=False)) is None


def test_a_setting_that_is_on_or_off_has_two_flags() -> None:
    option = SettingOption("reissue", required=False)
    assert (given(option, "--reissue"), given(option, "--no-reissue")) == (True, False)
    assert help_extra(option)["default"] == "true"


def test_the_choices_are_those_of_the_engine() -> None:
    offered = {
        (path, option.name): tuple(option.type.choices)
        for path, option in OPTIONS
        if isinstance(option.type, click.Choice)
    }
    assert offered["backscroll replay", "strategy"] == names()
    assert offered["backscroll replay", "format"] == ("auto", *FORMATS)
    assert offered["backscroll bench memory", "strategies"] == COMPARED.names()


def test_a_flag_out_of_range_is_refused_in_one_line() -> None:
    done = CliRunner().invoke(main, ["replay", "chat.jsonl", "--budget", "0"])
    assert done.exit_code == 2
    assert done.output.splitlines()[-1] == (
        "Error: Invalid value for '--budget' (env var: 'BACKSCROLL_BUDGET'): 0 is not in the range x>=1."
    )
