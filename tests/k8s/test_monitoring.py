"""Alerts and dashboard: they parse, they name what the engine emits, and alerts come when they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import REGISTRY

from backscroll.operators.llm import resilience
from backscroll.operators.runtime import metrics
from support.manifests import K8S

MONITORING = K8S / "components" / "monitoring"
# Of others: Kafka Exporter, vLLM, and what Prometheus says of each target.
OTHERS = {
    "kafka_consumergroup_lag": {"consumergroup", "topic"},
    "vllm:num_requests_waiting": set(),
    "up": set(),
}
TARGET = {"namespace", "pod", "job"}


def emitted() -> dict[str, set[str]]:
    """The series of the engine's registry, each with its labels."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    found: dict[str, set[str]] = {}
    for collector in REGISTRY._collector_to_names:
        if name := getattr(collector, "_name", ""):
            labels = {*collector._labelnames, *({"le"} if collector._type == "histogram" else ())}
            found |= {name + suffix: labels for suffix in suffixes.get(collector._type, ())}
    return found


def rules() -> list[dict[str, Any]]:
    (found,) = yaml.safe_load_all((MONITORING / "alerts.yaml").read_text())
    (group,) = found["spec"]["groups"]
    every: list[dict[str, Any]] = group["rules"]
    return every


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
    return found


def queries() -> Iterator[tuple[str, str]]:
    """Every query in PromQL, and where it stands."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            plain = target["expr"].replace("$__rate_interval", "5m").replace("$namespace", "backscroll")
            yield panel["title"], plain
    for found in yaml.safe_load_all((K8S / "components" / "keda-vllm" / "scaling.yaml").read_text()):
        for trigger in found["spec"].get("triggers", ()):
            yield found["metadata"]["name"], trigger["metadata"]["query"]


def asked(query: str) -> tuple[dict[str, set[str]], set[str]]:
    """The series a query selects, each with the labels it selects by; and the labels it groups by."""
    series: dict[str, set[str]] = {}
    groups: set[str] = set()

    def visit(expr: Any) -> None:
        if isinstance(expr, promql_parser.MatrixSelector):
            expr = expr.vector_selector
        if isinstance(expr, promql_parser.VectorSelector):
            series.setdefault(expr.name, set()).update(one.name for one in expr.matchers.matchers)
        if isinstance(expr, promql_parser.AggregateExpr) and expr.modifier is not None:
            groups.update(expr.modifier.labels)

    promql_parser.walk(promql_parser.parse(query), visit)
    return series, groups


def unknown(query: str) -> Iterator[str]:
    known = {**OTHERS, **emitted()}
    series, groups = asked(query)
    for name, labels in series.items():
        if name not in known:
            yield f"nobody emits {name}"
        yield from (f"{name} has no label {label}" for label in labels - known.get(name, set()) - TARGET)
    having = set().union(*(known.get(name, set()) for name in series))
    yield from (f"nothing to group by {label}" for label in groups - having - TARGET)


def test_every_query_asks_for_what_is_emitted_by_labels_that_it_has() -> None:
    found = [f"{where}: {line}" for where, query in queries() for line in unknown(query)]
    assert found == []
    assert len(list(queries())) >= 24


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("rate(backscroll_messages[5m])", "nobody emits backscroll_messages"),
        ('backscroll_llm_calls_total{result="ok"}', "backscroll_llm_calls_total has no label result"),
        ("sum by (reason) (backscroll_llm_calls_total)", "nothing to group by reason"),
        ("backscroll_llm_seconds", "nobody emits backscroll_llm_seconds"),
    ],
)
def test_a_query_for_what_is_not_there_is_seen(query: str, says: str) -> None:
    assert list(unknown(query)) == [says]


def test_every_metric_of_the_engine_is_watched() -> None:
    """One nobody looks at should go."""
    watched = {name for _, query in queries() for name in asked(query)[0]}
    watched = {re.sub("_(total|bucket|sum|count)$", "", name) for name in watched}
    own = {
        metric._name
        for module in (metrics, resilience)
        for metric in vars(module).values()
        if str(getattr(metric, "_name", "")).startswith("backscroll_")
    }
    assert own - watched == set()


def test_alerts_say_how_bad_they_are_and_the_docs_say_what_to_do() -> None:
    page = (K8S.parent / "docs" / "operations.md").read_text()
    for rule in rules():
        assert rule["labels"].keys() == {"severity"}
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary"}
        assert f"`{rule['alert']}`" in page
    assert len({rule["alert"] for rule in rules()}) == len(rules())


def test_panels_do_not_overlap_and_use_the_variables() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy)
        for panel in panels
        for dx in range(panel["gridPos"]["w"])
        for dy in range(panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    assert [one["name"] for one in dashboard()["templating"]["list"]] == ["datasource", "namespace"]


def alert(name: str, minutes: int, series: dict[str, str], **labels: str) -> dict[str, Any]:
    """After so many minutes of these series, the alert fires with the labels; without labels it does not."""
    severity = {"severity": next(rule["labels"]["severity"] for rule in rules() if rule["alert"] == name)}
    expected = [{"exp_labels": {**labels, **severity}}] if labels else []
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": key, "values": values} for key, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{minutes}m", "alertname": name, "exp_alerts": expected}],
    }


N = '{namespace="b"}'
CASES = [
    ("BackscrollDown", 6, {}, {"job": "backscroll"}),
    ("BackscrollDown", 6, {'up{job="backscroll"}': "0x10"}, {"_": ""}),
    (
        "BackscrollDown",
        6,
        {'up{job="backscroll",pod="a"}': "0x10", 'up{job="backscroll",pod="b"}': "1x10"},
        {},
    ),
    ("BackscrollStalled", 4, {f"backscroll_epoch_progress_timestamp_seconds{N}": "0x10"}, {"namespace": "b"}),
    ("BackscrollStalled", 4, {f"backscroll_epoch_progress_timestamp_seconds{N}": "0+60x10"}, {}),
    (
        "BackscrollLostMessages",
        5,
        {'backscroll_lost_messages_total{namespace="b",topic="m",partition="0"}': "_ _ 7x10"},
        {"namespace": "b", "topic": "m", "partition": "0"},
    ),
    (
        "BackscrollLostMessages",
        90,
        {'backscroll_lost_messages_total{namespace="b",topic="m",partition="0"}': "7x100"},
        {},
    ),
    (
        "BackscrollWindowsStuck",
        25,
        {f"backscroll_pending_windows{N}": "3x30", f"backscroll_summaries_total{N}": "5x30"},
        {"namespace": "b"},
    ),
    (
        "BackscrollWindowsStuck",
        25,
        {f"backscroll_pending_windows{N}": "3x30", f"backscroll_summaries_total{N}": "5+1x30"},
        {},
    ),
    (
        "BackscrollWindowsOld",
        35,
        {
            'backscroll_stage_seconds_bucket{namespace="b",stage="summary",le="120"}': "0x40",
            'backscroll_stage_seconds_bucket{namespace="b",stage="summary",le="300"}': "0+1x40",
            'backscroll_stage_seconds_bucket{namespace="b",stage="summary",le="+Inf"}': "0+1x40",
        },
        {"namespace": "b", "stage": "summary"},
    ),
    (
        "BackscrollLag",
        12,
        {
            f'kafka_consumergroup_lag{{consumergroup="backscroll",topic="m",partition="{n}"}}': "3000x20"
            for n in (0, 1)
        },
        {"consumergroup": "backscroll", "topic": "m"},
    ),
    (
        "BackscrollLag",
        12,
        {'kafka_consumergroup_lag{consumergroup="other",topic="m",partition="0"}': "9000x20"},
        {},
    ),
    (
        "BackscrollDegraded",
        50,
        {
            'backscroll_degraded_summaries_total{namespace="b",reason="budget"}': "0+2x60",
            'backscroll_summaries_total{namespace="b",kind="extractive",origin="made"}': "0+10x60",
            'backscroll_summaries_total{namespace="b",kind="any",origin="store"}': "0+100x60",
        },
        {"namespace": "b"},
    ),
    (
        "BackscrollModelErrors",
        30,
        {
            'backscroll_llm_calls_total{namespace="b",stage="gaps",outcome="timeout"}': "0+3x60",
            'backscroll_llm_calls_total{namespace="b",stage="gaps",outcome="ok"}': "0+7x60",
        },
        {"namespace": "b"},
    ),
    (
        "BackscrollModelErrors",
        30,
        {
            'backscroll_llm_calls_total{namespace="b",stage="gaps",outcome="cancelled"}': "0+9x60",
            'backscroll_llm_calls_total{namespace="b",stage="gaps",outcome="ok"}': "0+1x60",
        },
        {},
    ),
    ("BackscrollDeadLetters", 10, {f"backscroll_dead_letters_total{N}": "0 0 0 1x20"}, {"namespace": "b"}),
    ("BackscrollDeadLetters", 10, {f"backscroll_dead_letters_total{N}": "4x20"}, {}),
]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian package prometheus)")
def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    plain = [{**rule, "annotations": {}} for rule in rules()]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "backscroll", "rules": plain}]}))
    tests = [alert(name, minutes, series, **labels) for name, minutes, series, labels in CASES]
    for test in tests:
        for expected in test["alert_rule_test"][0]["exp_alerts"]:
            expected["exp_labels"].pop("_", None)  # fires without labels of its own
    suite = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(suite))
    command = ["promtool", "test", "rules", "tests.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {test["name"] for test in tests} == {rule["alert"] for rule in rules()}
