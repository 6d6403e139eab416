"""Builds the tables of docs/ from the code: settings, limits, errors, commands, metrics, alarms.

A page marks the place: `<!-- table: settings BrokerSettings -->` … `<!-- end of table -->`. Descriptions are
the docstrings under the fields. They are read from the source, so that they cost nothing at run time.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, get_args, get_origin

import click
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from strandline import errors
from strandline.adapters.telemetry.metrics import Metric
from strandline.adapters.telemetry.metrics_server import PROCESS_METRICS
from strandline.broker.kafka.wire import api_versions, apis
from strandline.broker.metrics import METRICS as BROKER_METRICS
from strandline.client.metrics import ClientMetric
from strandline.config import (
    authorization,
    client,
    console,
    consumer,
    limits,
    login,
    oauth,
    producer,
    sasl,
    streams,
)
from strandline.config import metrics as metrics_settings
from strandline.config.explain.complaints import allowed
from strandline.config.services import broker, controller, listener, zookeeper
from strandline.config.services.constants import (
    FOR_TESTS,
    BrokerConstants,
    ControllerConstants,
    ZooKeeperConstants,
)
from strandline.consumer.measures import CONSUMER_METRICS
from strandline.controller.metrics import METRICS as CONTROLLER_METRICS
from strandline.producer.measures import PRODUCER_METRICS
from strandline.security import calls
from strandline.vocabulary import topic_config
from strandline_lab.conformance.kips import KIPS
from strandline_lab.simulation.faults.fault import Fault
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.workloads.assigned.member import AssignedMember
from strandline_lab.simulation.workloads.every import AnyWorkload
from strandline_lab.simulation.workloads.member import MemberPlan

BLOCK = re.compile(
    r"(?P<begin><!-- table: (?P<kind>\w+)(?: (?P<argument>\w+))? -->\n).*?(?P<end><!-- end of table -->)",
    re.DOTALL,
)

SETTINGS: dict[str, type[BaseModel]] = {
    name: cls
    for module in (
        zookeeper,
        listener,
        broker,
        controller,
        metrics_settings,
        authorization,
        sasl,
        oauth,
        login,
        client,
        console,
        producer,
        consumer,
        streams,
        topic_config,
    )
    for name, cls in inspect.getmembers(module, inspect.isclass)
    if issubclass(cls, BaseModel) and cls.__module__ == module.__name__
}
"""Every class of settings, by its name."""

CONSTANTS: dict[str, type[BaseModel]] = {
    cls.__name__: cls for cls in (ZooKeeperConstants, BrokerConstants, ControllerConstants)
}
"""Every class of constants, by its name."""

KIND: Final = "kind"
"""The field that tells the workloads of a plan apart."""
PLANS: dict[str, type[BaseModel]] = {
    cls.__name__: cls
    for cls in (Plan, Fault, MemberPlan, AssignedMember, *get_args(get_args(AnyWorkload)[0]))
}
"""Every part of a simulation's plan, by its name."""


def described(where: type | ModuleType) -> dict[str, str]:
    """Each annotated name of a class or module, with the docstring under it on one line, or an empty
    string."""
    tree = ast.parse(inspect.getsource(where))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else tree.body
    found = {}
    for field, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = str(after.value.value)
        found[field.target.id] = " ".join(text.split())
    return found


def _number(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool) or not isinstance(value, int):
        return f"`{value}`" if str(value) else "empty"
    for exponent in (63, 53, 31):
        if value == 2**exponent - 1:
            return f"2^{exponent} − 1"
    return f"{value:,}"


def _bounds(info: FieldInfo) -> str:
    return allowed(info, _number, lambda choice: f"`{choice}`")


def settings(name: str) -> str:
    """The table of a settings class: each of its own fields with default, bounds and meaning."""
    cls = SETTINGS[name]
    meaning = described(cls)
    rows = ["| setting | default | allowed | meaning |", "| --- | --- | --- | --- |"]
    for field, info in cls.model_fields.items():
        if field not in cls.__annotations__:
            continue  # of a base class, which has a table of its own
        default = "required" if info.is_required() else _number(info.get_default(call_default_factory=True))
        rows.append(f"| `{info.alias or field}` | {default} | {_bounds(info)} | {meaning[field]} |")
    return "\n".join(rows) + "\n"


def constants(name: str) -> str:
    """The table of a class of constants: name, value, meaning."""
    cls = CONSTANTS[name]
    meaning = described(cls)
    rows = ["| constant | value | meaning |", "| --- | --- | --- |"]
    for field, info in cls.model_fields.items():
        if field not in FOR_TESTS:
            rows.append(f"| `{field}` | {_number(info.default)} | {meaning[field]} |")
    return "\n".join(rows) + "\n"


def plan(name: str) -> str:
    """The table of the fields of a part of a plan, also of those that its base class has."""
    cls = PLANS[name]
    meaning = {field: text for each in reversed(cls.__mro__[:-1]) for field, text in _own(each).items()}
    rows = ["| field | default | allowed | meaning |", "| --- | --- | --- | --- |"]
    for field, info in cls.model_fields.items():
        choices = get_args(info.annotation) if get_origin(info.annotation) is Literal else ()
        if field == KIND and choices:
            continue  # the title of the table
        default = "required" if info.is_required() else _number(info.get_default())
        allowed = ", ".join(f"`{choice}`" for choice in choices) or _bounds(info)
        rows.append(f"| `{field}` | {default} | {allowed} | {meaning[field]} |")
    return "\n".join(rows) + "\n"


def _own(cls: type) -> dict[str, str]:
    return described(cls) if cls.__module__.startswith("strandline_lab.simulation.") else {}


def shared_limits(_: str | None) -> str:
    """The table of the fixed limits."""
    rows = ["| limit | value | meaning |", "| --- | --- | --- |"]
    for name, meaning in described(limits).items():
        if name not in ("KIB", "MIB"):
            rows.append(f"| `{name}` | {_number(getattr(limits, name))} | {meaning} |")
    return "\n".join(rows) + "\n"


def error_codes(_: str | None) -> str:
    """The table of wire errors: number, name, outcome, and the first sentence of the docstring."""
    rows = ["| number | code | outcome | class | meaning |", "| --- | --- | --- | --- | --- |"]
    classes = [
        cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, errors.StrandlineError) and "code" in vars(cls)
    ]
    for cls in sorted(classes, key=lambda each: (each.code, each.__name__)):
        own = cls.__doc__ if "__doc__" in vars(cls) and cls.__doc__ else ""
        text = " ".join(own.split("\n\n")[0].split())
        if cls is not errors.StrandlineError:
            rows.append(f"| {cls.code} | {cls.code.name} | {cls.outcome.value} | `{cls.__name__}` | {text} |")
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    """Click's text as a table's cell: a bar would end the cell, and the range is at the end of the text
    anyway."""
    for old, new in (("|", "\\|"), ("INTEGER RANGE", "N"), ("FLOAT RANGE", "N"), ("  ", " ")):
        text = text.replace(old, new)
    return text


def commands(_: str | None) -> str:
    """All commands with their arguments and own options."""
    # Not imported at the top: a command line that fails to import must not hide other problems.
    from strandline.cli.__main__ import cli
    from strandline_lab.cli.__main__ import cli as lab

    def listed(command: click.Command, path: str) -> Iterator[str]:
        if isinstance(command, click.Group):
            for name, child in sorted(command.commands.items()):
                yield from listed(child, f"{path} {name}")
            return
        context = click.Context(command, info_name=path)
        yield f"### `{' '.join(command.get_usage(context).removeprefix('Usage:').split())}`\n"
        yield inspect.cleandoc(command.help or "") + "\n"
        rows = [
            record
            for parameter in command.params
            if parameter.expose_value and (record := parameter.get_help_record(context)) is not None
        ]
        if rows:
            yield "| option | meaning |\n| --- | --- |"
            yield "\n".join(f"| `{_cell(names)}` | {_cell(meaning)} |" for names, meaning in rows) + "\n"

    return "\n" + "\n".join([*listed(cli, "strandline"), *listed(lab, "strandline-lab")]) + "\n"


METRICS: dict[str, tuple[Metric, ...]] = {
    "process": PROCESS_METRICS,
    "broker": BROKER_METRICS,
    "controller": CONTROLLER_METRICS,
}
"""The metrics of every service, and those of a broker and of a controller."""


def metrics(of: str) -> str:
    """The table of the metrics of `process`, `broker` or `controller`."""
    rows = ["| name | type | labels | meaning |", "| --- | --- | --- | --- |"]
    for metric in METRICS[of]:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.meaning} |")
    return "\n".join(rows) + "\n"


CLIENT_METRICS: dict[str, tuple[ClientMetric, ...]] = {
    "producer": PRODUCER_METRICS,
    "consumer": CONSUMER_METRICS,
}


def client_metrics(of: str) -> str:
    """The table of the metrics of a `producer` or a `consumer`."""
    rows = ["| name | unit | meaning |", "| --- | --- | --- |"]
    for each in CLIENT_METRICS[of]:
        rows.append(f"| `{each.name}` | {re.sub(r'[{}]', '', each.unit)} | {each.meaning} |")
    return "\n".join(rows) + "\n"


ALARMS = Path("deploy/prometheus/alerts.yml")


def alarms(_: str | None) -> str:
    """The table of the alarms: name, expression, how long it has to hold, meaning, and what to do."""
    rows = ["| alarm | if | for | it means | do |", "| --- | --- | --- | --- | --- |"]
    text = (Path(__file__).resolve().parent.parent / ALARMS).read_text()
    for group in yaml.safe_load(text)["groups"]:
        for rule in group["rules"]:
            told, condition = rule["annotations"], f"`{_cell(rule['expr'])}` | {rule.get('for', '0')}"
            rows.append(f"| {rule['alert']} | {condition} | {told['summary']} | {told['action']} |")
    return "\n".join(rows) + "\n"


RIGHTS = {"rpcs": calls.RPCS, "kafka": calls.KAFKA_APIS}


def rights(which: str) -> str:
    """The table of the rights that calls need, `rpcs` or `kafka`."""
    rows = ["| call | needs | if the right is missing |", "| --- | --- | --- |"]
    for path, row in RIGHTS[which].items():
        name = path.removeprefix("/").removeprefix("strandline.v1.").replace("/", ".")
        rows.append(f"| `{name}` | {row.needs} | {row.refused} |")
    return "\n".join(rows) + "\n"


def kips(_: str | None) -> str:
    """The table of Kafka's improvement proposals, and whether what they brought is served."""
    served = {wire.name: wire.versions for wire in vars(apis).values() if isinstance(wire, apis.ApiWire)}
    served["ApiVersions"] = range(api_versions.LAST + 1)
    rows = ["| KIP | what it brought | by | here |", "| ---: | --- | --- | --- |"]
    for kip in sorted(KIPS):
        needs = ", ".join(f"{api} {since}" for api, since in kip.needs.items())
        here = kip.partly or ("yes" if kip.served(served) else "no")
        rows.append(f"| {kip.number} | {kip.subject} | {needs} | {here} |")
    return "\n".join(rows) + "\n"


TABLES: dict[str, Callable[[Any], str]] = {
    "settings": settings,
    "constants": constants,
    "plan": plan,
    "limits": shared_limits,
    "errors": error_codes,
    "commands": commands,
    "metrics": metrics,
    "client_metrics": client_metrics,
    "alarms": alarms,
    "rights": rights,
    "kips": kips,
}


def rewrite(page: str) -> str:
    """The page with every table as the code defines it now. Raises KeyError for an unknown kind of table."""

    def block(match: re.Match[str]) -> str:
        return match["begin"] + TABLES[match["kind"]](match["argument"]) + match["end"]

    return BLOCK.sub(block, page)


def missing(pages: list[Path]) -> list[str]:
    """Classes of settings and parts of plans without a table on any page."""
    shown = {match["argument"] for page in pages for match in BLOCK.finditer(page.read_text())}
    return [f"no page has a table of {name}" for name in sorted({*SETTINGS, *PLANS} - shown)]
