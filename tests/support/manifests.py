"""The manifests of `k8s/` as objects: rendered by kubectl, validated against schemas, without a cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from kubernetes_validate import utils as kubernetes

Object = dict[str, Any]
kubernetes.schema_contents = cache(kubernetes.schema_contents)  # it reads megabytes for every object
ROOT = Path(__file__).resolve().parents[2]
K8S = ROOT / "k8s"
VERSIONS = sorted({tuple(map(int, version.split(".")[:2])) for version in kubernetes.all_versions()})[-3:]
# What our objects use of definitions that the cluster's operators bring, after the operators' references;
# a field that is not in there is refused, as the API server refuses it under strict validation.
CUSTOM: dict[str, Any] = json.loads((Path(__file__).parents[1] / "k8s" / "custom-resources.json").read_text())


def kubectl() -> str | None:
    """The command, from the environment of the tests before any other."""
    beside = Path(sys.executable).with_name("kubectl")
    return str(beside) if beside.exists() else shutil.which("kubectl")


def render(folder: Path) -> list[Object]:
    """What `kubectl kustomize` makes of a folder.

    Raises:
        AssertionError: it cannot be rendered, or kubectl warns.
    """
    command = [kubectl() or "kubectl", "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def combine(folder: Path, resource: Path, components: Sequence[str]) -> list[Object]:
    """A base or overlay with components over it, rendered through a kustomization in `folder`."""
    folder.mkdir()
    wanted = {
        "resources": [os.path.relpath(resource, folder)],
        "components": [os.path.relpath(K8S / "components" / name, folder) for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(wanted))
    return render(folder)


def mistakes(found: Object) -> Iterator[str]:
    """Where an object breaks its schema, in each of the Kubernetes versions."""
    schema = CUSTOM.get(f"{found['apiVersion']}/{found['kind']}")
    if schema is None:
        for major, minor in VERSIONS:
            yield from _mistakes(json.dumps(found, sort_keys=True), f"{major}.{minor}")
        return
    whole = {"type": "object", "required": ["metadata", "spec"], "properties": {"spec": schema}}
    for error in jsonschema.Draft202012Validator(whole).iter_errors(found):
        yield f"{name(found)}: {error.json_path}: {error.message}"


def name(found: Object) -> str:
    """`Kind/name`."""
    return f"{found['kind']}/{found['metadata']['name']}"


@cache
def _mistakes(text: str, version: str) -> tuple[str, ...]:
    found = json.loads(text)
    try:
        kubernetes.validate(found, version, strict=True)
    except kubernetes.ValidationError as err:
        return (f"{name(found)}: Kubernetes {version}: {err.message}",)
    except kubernetes.SchemaNotFoundError as err:
        return (f"{name(found)}: {err.message}",)
    return ()
