"""The parts of a page: the document with its style, the verdict, and tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from strandline.report.verdict import Verdict
from strandline_lab.report.facts import Facts, FaultFact, PartitionFact
from strandline_lab.report.markup import Markup, joined, tag
from strandline_lab.report.picture import NoMatplotlib, draw

REPORT: Final = "report.html"
PICTURE_SVG: Final = "chart.svg"
PICTURE_PNG: Final = "chart.png"
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


def document(title: str, facts: Facts, *body: object) -> str:
    """The whole page, with its verdict first."""
    head = joined(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width"),
        tag("title", f"{title}: {facts.verdict.value}"),
        tag("style", STYLE),
    )
    whole = joined(tag("h1", title), _verdict(facts), *body)
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', whole), lang='en')}\n"


def picture_of(facts: Facts, out: Path) -> Markup:
    """Draw the picture into `out`, as files and for the page. Says so if it cannot be drawn. Raises
    OSError."""
    svg = out / PICTURE_SVG
    try:
        draw(facts, svg, out / PICTURE_PNG)
        return tag("figure", _inline(svg.read_text()))
    except NoMatplotlib as error:
        return tag("p", f"There is no picture: {error}", class_="note")


def _inline(svg: str) -> Markup:
    """The svg element alone, since a document inside a document has no head of its own."""
    return Markup(svg[svg.index("<svg") :])


def _verdict(facts: Facts) -> Markup:
    kinds = {Verdict.GOOD: "verdict good", Verdict.WRONG: "verdict bad", Verdict.UNWELL: "verdict bad"}
    value = facts.verdict.value
    said = tag("strong", value[0].upper() + value[1:])
    reasons = tag("ul", *(tag("li", reason) for reason in facts.reasons)) if facts.reasons else ""
    return tag("div", said, reasons, class_=kinds.get(facts.verdict, "verdict"))


# --- tables -----------------------------------------------------------------------------------


CLIENTS_DURING_FAULTS: Final = ("#longest without an acknowledged write meanwhile", "")
CLIENTS: Final = (
    "#acknowledged", "#longest without an acknowledged write", "#from", "#read after, at most",
)  # fmt: skip
"""Columns that are known only of clients that recorded their times."""


def faults_table(facts: Facts) -> Markup:
    if not facts.faults:
        return joined(tag("h2", "Faults"), tag("p", "None was planned.", class_="note"))
    columns = (
        "what", "who", "#from", "#for", "detail", "#until the next leader",
        "#longest without an acknowledged write meanwhile", "", "#after its end, until all were in sync",
    )  # fmt: skip
    rows = [_fault(fault, facts) for fault in facts.faults]
    return joined(tag("h2", "Faults"), _known(facts, columns, rows, CLIENTS_DURING_FAULTS))


def _fault(fault: FaultFact, facts: Facts) -> Sequence[str]:
    if fault.span is None:
        return fault.kind, ", ".join(fault.who), "", "not done", fault.detail, "", "", "", ""
    begins_s = (fault.span.from_ms - facts.span.from_ms) / 1000
    after = "" if fault.next_leader_ms is None else time(fault.next_leader_ms)
    gap, place = (time(fault.gap[1].took_ms), str(fault.gap[0])) if fault.gap else ("unknown", "")
    return (
        fault.kind, ", ".join(fault.who), f"{begins_s:.1f} s", time(fault.span.took_ms), fault.detail, after,
        gap, place, time(fault.whole_after_ms),
    )  # fmt: skip


def partitions_table(facts: Facts) -> Markup:
    if not facts.partitions:
        return joined(tag("h2", "Partitions"), tag("p", "No data.", class_="note"))
    columns = (
        "partition", "#acknowledged", "#high watermark", "#longest without an acknowledged write", "#from",
        "#elections", "#unclean", "#least in sync", "#in sync after healing", "#read after, at most",
    )  # fmt: skip
    rows = [_partition(each, facts) for each in facts.partitions]
    return joined(tag("h2", "Partitions"), _known(facts, columns, rows, CLIENTS))


def _partition(fact: PartitionFact, facts: Facts) -> Sequence[str]:
    gap, begins = "unknown", ""
    if fact.gap is not None:
        gap = time(fact.gap.took_ms)
        begins = f"{(fact.gap.from_ms - facts.span.from_ms) / 1000:.1f} s"
    watermark = "unknown" if fact.high_watermark is None else f"{fact.high_watermark:,}"
    return (
        str(fact.place), f"{fact.acked:,}", watermark, gap, begins, str(fact.elections), str(fact.unclean),
        cell(fact.least_isr), time(fact.whole_after_ms), time(fact.read_after_ms),
    )  # fmt: skip


def _known(
    facts: Facts, columns: Sequence[str], rows: Iterable[Sequence[str]], of_clients: Collection[str]
) -> Markup:
    """The table; without the columns of clients if none recorded its times."""
    left_out = () if facts.loaded is not None else of_clients
    places = [place for place, column in enumerate(columns) if column not in left_out]
    return table([columns[place] for place in places], [[row[place] for place in places] for row in rows])


def terms(*terms: tuple[str, object]) -> Markup:
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in terms))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Columns whose names begin with # are numbers."""
    kinds = ["number" if column.startswith("#") else "" for column in columns]

    def cells(name: str, values: Iterable[str]) -> Markup:
        return joined(*(tag(name, value, class_=kind) for value, kind in zip(values, kinds, strict=True)))

    head = tag("tr", cells("th", (column.removeprefix("#") for column in columns)))
    return tag("table", tag("thead", head), tag("tbody", *(tag("tr", cells("td", row)) for row in rows)))


def cell(value: object | None) -> str:
    return "" if value is None else str(value)


def short(words: str) -> str:
    return words if len(words) <= WORD_CHARACTERS_MAX else f"{words[:WORD_CHARACTERS_MAX]}…"


def time(value_ms: float | None) -> str:
    if value_ms is None:
        return "unknown"
    return f"{value_ms:.0f} ms" if value_ms < 1_000 else f"{value_ms / 1_000:.1f} s"
