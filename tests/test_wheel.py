"""The built wheel, in an environment of its own, beside folders that have the names of ours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path
from urllib.request import urlopen

import pytest

from support.commands import records, run

ROOT = Path(__file__).resolve().parents[1]
FOREIGN = ("flows", "operators", "connectors", "benchmarks", "training", "web")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built from a copy of what belongs into it."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    for folder in packages.values():
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "from setuptools.build_meta import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(out)], cwd=source, capture_output=True, text=True, check=True
    )
    return out / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a fresh environment that holds the wheel; what it requires is ours."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    subprocess.run([*command, "--disable-pip-version-check", str(wheel)], check=True)
    site = sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)})
    required = [folder for folder in sys.path if Path(folder).name == "site-packages"]
    (Path(site) / "required.pth").write_text("\n".join(required))  # their own .pth files are not read
    return home / "bin"


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A folder with modules that have the names of our folders, and that break whoever imports them."""
    for name in FOREIGN:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise AssertionError('this is not Backscroll')\n")
        (tmp_path / f"{name}.py").write_text("raise AssertionError('this is not Backscroll')\n")
    (tmp_path / "backscroll.py").write_text("raise AssertionError('this is not Backscroll')\n")
    return tmp_path


def test_the_wheel_installs_one_name_with_every_module_and_data_file(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in names} == {"backscroll"}
    files = [path for folder in FOREIGN for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [path for path in (ROOT / "backscroll").iterdir() if path.is_file()]
    expected = {str(path.relative_to(ROOT)) for path in files if path.suffix != ".pyc"}
    assert {name.removeprefix("backscroll/") for name in names} == {
        path.removeprefix("backscroll/") for path in expected
    }


def test_modules_of_the_working_directory_shadow_nothing(
    installed: Path, crowded: Path, sample: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    store, out = crowded / "store", crowded / "summaries.jsonl"
    options = ["--embedding-model", "none", "--store", str(store), "--out", str(out)]
    done = subprocess.run(
        [str(installed / "backscroll"), "replay", str(sample), "--workers", "2", *options],
        cwd=crowded,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ours = run("replay", sample, "--embedding-model", "none", "--out", crowded / "ours.jsonl", cwd=crowded)
    assert ours.returncode == 0
    assert records(out.read_text().splitlines()) == records((crowded / "ours.jsonl").read_text().splitlines())

    serve = [str(installed / "backscroll"), "serve", "--store", str(store), "--port", "0"]
    with subprocess.Popen(serve, cwd=crowded, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            said = server.stderr.readline()
            address = re.search(r"http://\S+/", said)
            assert address is not None, said + server.stderr.read()
            with urlopen(f"{address.group()}api/channels", timeout=30) as answer:
                assert b"harbor-launch" in answer.read()
        finally:
            server.kill()
