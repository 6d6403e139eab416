"""Writes `report.html`: a round on one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strandline_lab.chaos.core.plan import Plan
from strandline_lab.chaos.report.facts import facts_of
from strandline_lab.chaos.report.reading import read_round
from strandline_lab.chaos.report.round_data import RoundData
from strandline_lab.report.events import SendOutcome
from strandline_lab.report.facts import Facts
from strandline_lab.report.markup import Markup, joined, tag
from strandline_lab.report.page import (
    REPORT,
    cell,
    document,
    faults_table,
    partitions_table,
    picture_of,
    short,
    table,
    terms,
    time,
)

FINDINGS_SHOWN: Final = 30


def write_report(out: Path) -> Path:
    """Writes the page of the round in `out`, with its picture as files beside it. Returns the page's path.

    The page names the parts of the round that are missing. Raises OSError.
    """
    data = read_round(out)
    facts = facts_of(data)
    report = out / REPORT
    report.write_text(page(data, facts, picture_of(facts, out)))
    return report


def page(data: RoundData, facts: Facts, picture: Markup) -> str:
    """The whole document."""
    return document(
        f"Chaos round {data.name}",
        facts,
        _repeat(data),
        _recovery(data, facts),
        _findings(data),
        picture,
        faults_table(facts),
        partitions_table(facts),
        _clients(data, facts),
        _unread(data.unread),
    )


# --- above the picture ------------------------------------------------------------------------


def command_of(plan: Plan) -> str:
    """The command that draws the same plan, on plain processes, from all kinds of faults."""
    brokers, controllers = (
        sum(member.role == role for member in plan.members) for role in ("broker", "controller")
    )
    return (
        f"strandline-lab chaos --seconds {plan.seconds:g} --seed {plan.seed} --brokers {brokers} "
        f"--controllers {controllers}"
    )


def _repeat(data: RoundData) -> Markup:
    plan = data.plan
    if plan is None:
        return tag("p", "There is no plan to repeat it by.", class_="note")
    topics = ", ".join(f"{topic.topic} × {topic.partitions}" for topic in plan.topics)
    return joined(
        terms(
            ("seed", plan.seed),
            ("faults for", f"{plan.seconds:g} s"),
            ("members", ", ".join(map(str, plan.members))),
            ("topics × partitions", topics),
        ),
        tag("p", "To repeat it:", class_="note"),
        tag("pre", data.command or command_of(plan)),
    )


def _recovery(data: RoundData, facts: Facts) -> Markup:
    gaps = [(fact.gap.took_ms, fact.place) for fact in facts.partitions if fact.gap is not None]
    longest = f"{time(max(gaps)[0])}, {max(gaps)[1]}" if gaps else "unknown"
    waits = [each.most for each in facts.latencies]
    return terms(
        ("took", time(facts.span.took_ms)),
        ("after healing, every partition writable", time(facts.writable_after_ms)),
        ("after healing, all in sync and serving", time(facts.settled_after_ms)),
        ("longest without an acknowledged write", longest),
        ("records acknowledged", f"{sum(fact.acked for fact in facts.partitions):,}"),
        ("received, by all readers", f"{sum(len(reader.received_ms) for reader in data.readers):,}"),
        ("longest until acknowledged", time(max(waits, default=None))),
        *(
            (("ended without a fault", ", ".join(dict.fromkeys(who for who, _ in facts.died))),)
            if facts.died
            else ()
        ),
    )


# --- below it ---------------------------------------------------------------------------------


def _findings(data: RoundData) -> Markup:
    if not data.findings:
        return joined()
    shown = data.findings[:FINDINGS_SHOWN]
    rows = [
        (each.check, each.topic, cell(each.partition), cell(each.offset), short(each.detail))
        for each in shown
    ]
    left_out = len(data.findings) - len(shown)
    return joined(
        tag("h2", f"Findings: {len(data.findings)}"),
        table(("check", "topic", "#partition", "#offset", "what"), rows),
        tag("p", f"and {left_out} more in findings.jsonl", class_="note") if left_out else "",
    )


def _clients(data: RoundData, facts: Facts) -> Markup:
    if not facts.senders and not data.readers:
        return joined(tag("h2", "Clients"), tag("p", "There were none.", class_="note"))
    outcomes = tuple(SendOutcome)
    sent = [
        (each.name, f"{each.sent:,}", *(f"{each.by_outcome[outcome]:,}" for outcome in outcomes))
        for each in facts.senders
    ]
    received = [(each.name, f"{len(each.received_ms):,}", short(each.error)) for each in data.readers]
    return joined(
        tag("h2", "Clients"),
        table(("producer", "#sent", *(f"#{outcome.value}" for outcome in outcomes)), sent) if sent else "",
        table(("reader", "#received", "ended with"), received) if received else "",
    )


def _unread(unread: Sequence[str]) -> Markup:
    if not unread:
        return joined()
    return joined(tag("h2", "What could not be read"), tag("ul", *(tag("li", each) for each in unread)))
