"""Writes `report.html`: a round on one self-contained page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from strandline.chaos.core.plan import Plan
from strandline.chaos.report.facts import Facts, FaultFact, PartitionFact, Verdict, facts_of
from strandline.chaos.report.markup import Markup, joined, tag
from strandline.chaos.report.picture import NoMatplotlib, draw
from strandline.chaos.report.reading import read_round
from strandline.chaos.report.round_data import Outcome, RoundData

REPORT: Final = "report.html"
PICTURE_SVG: Final = "chart.svg"
PICTURE_PNG: Final = "chart.png"
FINDINGS_SHOWN: Final = 30
WORD_CHARACTERS_MAX: Final = 400
"""Characters of a finding's detail: it may quote the output of a process."""

STYLE: Final = Markup("""
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2430; background: #fff; max-width: 82rem;
       margin: 2rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .5rem; }
.verdict { border-left: .5rem solid #8a8f98; background: #f5f6f8; padding: .8rem 1.2rem; margin: 1rem 0; }
.verdict strong { font-size: 1.2rem; } .verdict ul { margin: .3rem 0 0; padding-left: 1.2rem; }
.verdict.good { border-color: #2e7d4f; background: #eef6f1; }
.verdict.bad { border-color: #d01c1c; background: #fbeeee; }
dl { display: flex; flex-wrap: wrap; gap: .4rem 2.2rem; margin: 1rem 0; }
dt { color: #6b7078; font-size: .85rem; } dd { margin: 0; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .25rem 1.1rem .25rem 0; text-align: left; vertical-align: top;
         border-bottom: 1px solid #e6e8ec; }
th { color: #6b7078; font-weight: normal; vertical-align: bottom; max-width: 10rem; }
td.number, th.number { text-align: right; }
code, pre { font: 13px/1.5 ui-monospace, monospace; background: #f5f6f8; padding: .1rem .35rem; }
pre { padding: .6rem .9rem; overflow-x: auto; } .note { color: #6b7078; }
figure { margin: 1.2rem 0 0; } figure svg { width: 100%; height: auto; }
""")


def write_report(out: Path) -> Path:
    """Writes the page of the round in `out`, with its picture as files beside it. Returns the page's path.

    The page names the parts of the round that are missing. Raises OSError.
    """
    data = read_round(out)
    facts = facts_of(data)
    svg = out / PICTURE_SVG
    try:
        draw(facts, svg, out / PICTURE_PNG)
        picture = tag("figure", _inline(svg.read_text()))
    except NoMatplotlib as error:
        picture = tag("p", f"There is no picture: {error}", class_="note")
    report = out / REPORT
    report.write_text(page(data, facts, picture))
    return report


def page(data: RoundData, facts: Facts, picture: Markup) -> str:
    """The whole document."""
    title = f"Chaos round {data.name}"
    head = joined(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width"),
        tag("title", f"{title}: {facts.verdict.value}"),
        tag("style", STYLE),
    )
    body = joined(
        tag("h1", title),
        _verdict(facts),
        _repeat(data),
        _recovery(data, facts),
        _findings(data),
        picture,
        _faults(facts),
        _partitions(facts),
        _clients(data, facts),
        _unread(data.unread),
    )
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _inline(svg: str) -> Markup:
    """The svg element alone, since a document inside a document has no head of its own."""
    return Markup(svg[svg.index("<svg") :])


# --- above the picture ------------------------------------------------------------------------


def _verdict(facts: Facts) -> Markup:
    kinds = {Verdict.GOOD: "verdict good", Verdict.WRONG: "verdict bad", Verdict.UNWELL: "verdict bad"}
    value = facts.verdict.value
    said = tag("strong", value[0].upper() + value[1:])
    reasons = tag("ul", *(tag("li", reason) for reason in facts.reasons)) if facts.reasons else ""
    return tag("div", said, reasons, class_=kinds.get(facts.verdict, "verdict"))


def command_of(plan: Plan) -> str:
    """The command that draws the same plan, on plain processes, from all kinds of faults."""
    brokers, controllers = (
        sum(member.role == role for member in plan.members) for role in ("broker", "controller")
    )
    return (
        f"strandline chaos --seconds {plan.seconds:g} --seed {plan.seed} --brokers {brokers} "
        f"--controllers {controllers}"
    )


def _repeat(data: RoundData) -> Markup:
    plan = data.plan
    if plan is None:
        return tag("p", "There is no plan to repeat it by.", class_="note")
    topics = ", ".join(f"{topic.topic} × {topic.partitions}" for topic in plan.topics)
    return joined(
        _terms(
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
    longest = f"{_time(max(gaps)[0])}, {max(gaps)[1]}" if gaps else "unknown"
    waits = [each.most for each in facts.latencies]
    return _terms(
        ("took", _time(facts.span.took_ms)),
        ("after healing, every partition writable", _time(facts.writable_after_ms)),
        ("after healing, all in sync and serving", _time(facts.settled_after_ms)),
        ("longest without an acknowledged write", longest),
        ("records acknowledged", f"{sum(fact.acked for fact in facts.partitions):,}"),
        ("received, by all readers", f"{sum(len(reader.received_ms) for reader in data.readers):,}"),
        ("longest until acknowledged", _time(max(waits, default=None))),
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
        (each.check, each.topic, _cell(each.partition), _cell(each.offset), _short(each.detail))
        for each in shown
    ]
    left_out = len(data.findings) - len(shown)
    return joined(
        tag("h2", f"Findings: {len(data.findings)}"),
        _table(("check", "topic", "#partition", "#offset", "what"), rows),
        tag("p", f"and {left_out} more in findings.jsonl", class_="note") if left_out else "",
    )


def _faults(facts: Facts) -> Markup:
    if not facts.faults:
        return joined(tag("h2", "Faults"), tag("p", "None was planned.", class_="note"))
    columns = (
        "what", "who", "#from", "#for", "detail", "#longest without an acknowledged write meanwhile", "",
        "#after its end, until all were in sync",
    )  # fmt: skip
    return joined(tag("h2", "Faults"), _table(columns, [_fault(fault, facts) for fault in facts.faults]))


def _fault(fault: FaultFact, facts: Facts) -> Sequence[str]:
    if fault.span is None:
        return fault.kind, ", ".join(fault.who), "", "not done", fault.detail, "", "", ""
    begins_s = (fault.span.from_ms - facts.span.from_ms) / 1000
    gap, place = (_time(fault.gap[1].took_ms), str(fault.gap[0])) if fault.gap else ("unknown", "")
    return (
        fault.kind, ", ".join(fault.who), f"{begins_s:.1f} s", _time(fault.span.took_ms), fault.detail, gap,
        place, _time(fault.whole_after_ms),
    )  # fmt: skip


def _partitions(facts: Facts) -> Markup:
    if not facts.partitions:
        return joined(tag("h2", "Partitions"), tag("p", "No data.", class_="note"))
    columns = (
        "partition", "#acknowledged", "#high watermark", "#longest without an acknowledged write", "#from",
        "#elections", "#unclean", "#least in sync", "#in sync after healing", "#read after, at most",
    )  # fmt: skip
    return joined(
        tag("h2", "Partitions"), _table(columns, [_partition(each, facts) for each in facts.partitions])
    )


def _partition(fact: PartitionFact, facts: Facts) -> Sequence[str]:
    gap, begins = "unknown", ""
    if fact.gap is not None:
        gap = _time(fact.gap.took_ms)
        begins = f"{(fact.gap.from_ms - facts.span.from_ms) / 1000:.1f} s"
    watermark = "unknown" if fact.high_watermark is None else f"{fact.high_watermark:,}"
    return (
        str(fact.place), f"{fact.acked:,}", watermark, gap, begins, str(fact.elections), str(fact.unclean),
        _cell(fact.least_isr), _time(fact.whole_after_ms), _time(fact.read_after_ms),
    )  # fmt: skip


def _clients(data: RoundData, facts: Facts) -> Markup:
    if not facts.senders and not data.readers:
        return joined(tag("h2", "Clients"), tag("p", "There were none.", class_="note"))
    outcomes = tuple(Outcome)
    sent = [
        (each.name, f"{each.sent:,}", *(f"{each.by_outcome[outcome]:,}" for outcome in outcomes))
        for each in facts.senders
    ]
    received = [(each.name, f"{len(each.received_ms):,}", _short(each.error)) for each in data.readers]
    return joined(
        tag("h2", "Clients"),
        _table(("producer", "#sent", *(f"#{outcome.value}" for outcome in outcomes)), sent) if sent else "",
        _table(("reader", "#received", "ended with"), received) if received else "",
    )


def _unread(unread: Sequence[str]) -> Markup:
    if not unread:
        return joined()
    return joined(tag("h2", "What could not be read"), tag("ul", *(tag("li", each) for each in unread)))


# --- parts ------------------------------------------------------------------------------------


def _terms(*terms: tuple[str, object]) -> Markup:
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in terms))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Columns whose names begin with # are numbers."""
    kinds = ["number" if column.startswith("#") else "" for column in columns]

    def cells(name: str, values: Iterable[str]) -> Markup:
        return joined(*(tag(name, value, class_=kind) for value, kind in zip(values, kinds, strict=True)))

    head = tag("tr", cells("th", (column.removeprefix("#") for column in columns)))
    return tag("table", tag("thead", head), tag("tbody", *(tag("tr", cells("td", row)) for row in rows)))


def _cell(value: object | None) -> str:
    return "" if value is None else str(value)


def _short(words: str) -> str:
    return words if len(words) <= WORD_CHARACTERS_MAX else f"{words[:WORD_CHARACTERS_MAX]}…"


def _time(value_ms: float | None) -> str:
    if value_ms is None:
        return "unknown"
    return f"{value_ms:.0f} ms" if value_ms < 1_000 else f"{value_ms / 1_000:.1f} s"
