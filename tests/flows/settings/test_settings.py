from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from backscroll.flows.settings.settings import Settings, SettingsError, load_settings
from backscroll.operators.memory import registry
from backscroll.operators.memory.verbatim import check_verbatim


def test_flags_beat_the_environment_which_beats_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "backscroll.toml"
    config.write_text('budget = 100\ntop_k = 7\nstrategy = "recent"\n')
    monkeypatch.setenv("BACKSCROLL_BUDGET", "200")
    monkeypatch.setenv("BACKSCROLL_STRATEGY", "sparse")
    settings = load_settings({"strategy": "dense", "namespace": None}, config)
    assert (settings.top_k, settings.budget, settings.strategy) == (7, 200, "dense")
    assert settings.namespace == "default"


def test_the_defaults_are_those_of_the_paper() -> None:
    settings = Settings()
    assert (settings.window_tokens, settings.chunk_tokens, settings.chunk_overlap) == (1024, 128, 32)
    assert (settings.budget, settings.top_k, settings.rrf_constant) == (1024, 30, 60)
    assert settings.max_gaps == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bugdet = 1\n", "unknown setting 'bugdet' in .*backscroll.toml: did you mean budget"),
        ("budget = 'many'\n", "budget: Input should be a valid integer.* \\(it is 'many'\\)"),
        ("chunk_overlap = 128\n", "chunk_overlap must be below chunk_tokens"),
        ("budget =\n", "not valid TOML"),
    ],
)
def test_an_invalid_settings_file_is_named_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "backscroll.toml"
    config.write_text(text)
    with pytest.raises(SettingsError, match=message) as caught:
        load_settings({}, config)
    assert "\n" not in str(caught.value)


def test_an_unknown_variable_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_BUDGTE", "1")
    with pytest.raises(
        SettingsError, match="'BACKSCROLL_BUDGTE' in the environment: did you mean BACKSCROLL_BUDGET"
    ):
        load_settings({})


def test_a_missing_settings_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml: No such file"):
        load_settings({}, tmp_path / "nowhere.toml")


def test_settings_are_read_without_loading_the_memory_strategy() -> None:
    code = (
        "import sys; from backscroll.flows.settings.settings import load_settings; "
        "assert load_settings({}, None).strategy == 'backscroll'; print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_every_own_strategy_can_be_set_as_it_is_verbatim() -> None:
    for name in registry.OWN:
        check_verbatim(registry.get(name))
        assert Settings(strategy=name).strategy == name
