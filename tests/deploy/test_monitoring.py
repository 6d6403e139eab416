"""deploy/prometheus and deploy/grafana: what they ask for exists, and both programs can read them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import Any, Final

import promql_parser
import pytest
import yaml

from checks.doc_tables import ALARMS, METRICS
from strandline.adapters.telemetry.metrics import Kind

ROOT: Final = Path(__file__).parents[2]
PROMETHEUS: Final = ROOT / "deploy/prometheus"
DASHBOARD: Final = json.loads((ROOT / "deploy/grafana/strandline.json").read_text())
RULES: Final = [
    rule
    for path in (ROOT / ALARMS, PROMETHEUS / "rules.yml")
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
]

SUFFIXES: Final = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}
OF_A_TARGET: Final = {"job", "instance", "process"}
"""Labels that Prometheus gives all series of a target, and deploy/prometheus/prometheus.yml."""
LABELS: Final = {
    "up": set[str](),
    "process_resident_memory_bytes": set[str](),
    **{
        metric.name + suffix: {*metric.labels, *(["le"] if suffix == "_bucket" else [])}
        for metric in chain.from_iterable(METRICS.values())
        for suffix in SUFFIXES.get(metric.kind, ("",))
    },
    **{rule["record"]: {"consumergroup", "topic", "partition"} for rule in RULES if "record" in rule},
}
"""The labels of each series, by its name."""

PROMTOOL: Final = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool on PATH: install Prometheus")


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def asked() -> dict[str, str]:
    """Every expression, by the rule or panel that has it."""
    found = {rule.get("alert") or rule["record"]: rule["expr"] for rule in RULES}
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "5m")
            found[f"{panel['title']} {target['refId']}"] = expression
    return found


def selectors(expression: str) -> Iterator[promql_parser.VectorSelector]:
    """The names and matchers that an expression asks for. Raises ValueError if it is no PromQL."""
    found: list[promql_parser.VectorSelector] = []

    def visit(part: promql_parser.Expr) -> None:
        if isinstance(part, promql_parser.MatrixSelector):
            found.append(part.vector_selector)
        elif isinstance(part, promql_parser.VectorSelector):
            found.append(part)

    promql_parser.walk(promql_parser.parse(expression), visit)
    return iter(found)


@pytest.mark.parametrize("where", asked())
def test_rules_and_panels_ask_for_series_that_exist(where: str) -> None:
    """A misspelt name or label would be silent forever: no alarm, and a panel without data."""
    found = list(selectors(asked()[where]))
    assert found
    for each in found:
        assert each.name in LABELS, each.name
        wanted = {matcher.name for matcher in each.matchers.matchers}
        assert wanted <= LABELS[each.name] | OF_A_TARGET, each.name


def test_an_alarm_says_what_it_means_and_what_to_do() -> None:
    """docs/run/metrics.md has the alarms as a table, from their annotations."""
    alarms = [rule for rule in RULES if "alert" in rule]
    assert len({rule["alert"] for rule in alarms}) == len(alarms) > 20
    for rule in alarms:
        assert rule["labels"]["severity"] in ("critical", "warning"), rule
        assert rule["annotations"].keys() == {"summary", "action"}, rule


# --- Grafana ------------------------------------------------------------------------------------------


def test_the_dashboard_has_what_an_import_needs() -> None:
    """Grafana takes panels without an id, or with one twice, and shows some of them."""
    assert (DASHBOARD["uid"], DASHBOARD["title"]) == ("strandline", "strandline")
    assert DASHBOARD["schemaVersion"] >= 39
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids) > 40
    titles = [panel["title"] for panel in panels()]
    assert len(set(titles)) == len(titles)


def test_no_panel_lies_on_another_one() -> None:
    """A row of Grafana has 24 columns."""
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    for at in places:
        assert 0 <= at["x"] < at["x"] + at["w"] <= 24, at
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


def test_the_dashboard_works_with_any_prometheus() -> None:
    """It names no data source of ours, and each variable that it uses is defined."""
    for panel in panels():
        for source in (panel["datasource"], *(target["datasource"] for target in panel["targets"])):
            assert source == {"type": "prometheus", "uid": "${datasource}"}
    defined = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))
    assert used - {"__rate_interval", "__all"} == defined
    for variable in DASHBOARD["templating"]["list"]:
        for name, label in re.findall(r"label_values\((\w+).*, (\w+)\)", str(variable["query"])):
            assert label in LABELS[name] | OF_A_TARGET, name


# --- Prometheus ---------------------------------------------------------------------------------------


def promtool(*arguments: str) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_prometheus_takes_the_configuration_and_its_rules() -> None:
    promtool("check", "config", str(PROMETHEUS / "prometheus.yml"))


@needs_promtool
def test_prometheus_takes_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    """promtool checks rules alone, so each expression becomes one."""
    rules = [{"record": f"panel:{at}", "expr": each} for at, each in enumerate(asked().values())]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(path))


T: Final = 'topic="t",partition="0"'
SCRAPED: Final = {
    f'kafka_topic_partition_current_offset{{job="a",instance="1",{T}}}': "100+0x40",
    f'kafka_topic_partition_oldest_offset{{job="a",instance="1",{T}}}': "80+0x40",
    f'kafka_consumergroup_current_offset{{job="a",instance="2",consumergroup="g",{T}}}': "70+0x40",
    f'kafka_topic_partition_oldest_offset{{job="b",instance="3",{T}}}': "0+0x40",
    f'kafka_topic_partition_current_offset{{job="b",instance="3",{T}}}': "5+0x40",
    f'kafka_consumergroup_current_offset{{job="b",instance="3",consumergroup="g",{T}}}': "7+0x40",
    'up{job="strandline-b",instance="3"}': "1+0x40",
    'strandline_zookeeper_watches{job="a",instance="2"}': "5+0x40",
    'strandline_zookeeper_watches{job="a",instance="c"}': "7+0x40",
    'kafka_controller_kafkacontroller_activecontrollercount{job="a",instance="c"}': "1+0x40",
}
"""Two clusters with a topic and a group of the same name, a minute between samples. In the first, records
that the group had not read were deleted; in the second, its commit is beyond the end."""


@needs_promtool
def test_lag_and_alarms_are_what_the_series_say(tmp_path: Path) -> None:
    """The lag crosses processes, and not clusters; it is never below 0. A controller may have more watches
    than a broker, and a job without one has no active controller."""
    labels = 'consumergroup="g", topic="t"'
    lag = [
        {"labels": f'kafka_consumergroup_lag_sum{{job="a", {labels}}}', "value": 20},
        {"labels": f'kafka_consumergroup_lag_sum{{job="b", {labels}}}', "value": 0},
    ]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in SCRAPED.items()],
        "promql_expr_test": [{"expr": "kafka_consumergroup_lag_sum", "eval_time": "30m", "exp_samples": lag}],
        "alert_rule_test": [
            _fires("StrandlineGroupStuck", job="a", consumergroup="g", topic="t"),
            _fires("StrandlineGroupBeyondEnd", job="b", consumergroup="g", topic="t"),
            _fires("StrandlineTooManyWatches", job="a", instance="2"),
            _fires("StrandlineNoActiveController", job="strandline-b"),
        ],
    }
    path = tmp_path / "test.yml"
    files = [str(ROOT / ALARMS), str(PROMETHEUS / "rules.yml")]
    path.write_text(yaml.safe_dump({"rule_files": files, "evaluation_interval": "1m", "tests": [test]}))
    promtool("test", "rules", str(path))


def _fires(alert: str, **labels: str) -> dict[str, object]:
    (rule,) = [rule for rule in RULES if rule.get("alert") == alert]
    expected = {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": rule["annotations"]}
    return {"eval_time": "30m", "alertname": alert, "exp_alerts": [expected]}
