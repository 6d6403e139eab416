"""The page of a round: what is on it, what never gets onto it, and that there always is one."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.image import imread

from strandline_lab.chaos.report.facts import facts_of
from strandline_lab.chaos.report.page import FINDINGS_SHOWN, page, write_report
from strandline_lab.chaos.report.reading import read_round
from strandline_lab.report.markup import Markup, joined, tag
from tests.chaos.report.made_up import T0, Line, plan, write_lines, write_round

HOSTILE = "<script>alert('1 & \"2\"')</script>"


class Seen(HTMLParser):
    """The words of a page, the elements that it has, and whether each is closed in turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words = ""
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {value or "" for name, value in attrs if name in ("src", "href", "xlink:href")}
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {value or "" for name, value in attrs if name in ("src", "href", "xlink:href")}

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.words += f" {data}"


def finding(detail: str, number: int = 0) -> Line:
    return {"check": "lost", "topic": "orders", "partition": 2, "offset": 8112 + number, "detail": detail}


def drawn(out: Path, picture: str = "") -> str:
    """The page with these words for a picture."""
    round_data = read_round(out)
    return page(round_data, facts_of(round_data), tag("p", picture))


def coloured(path: Path) -> float:
    """The share of the picture that is not white."""
    return float((imread(path)[:, :, :3].min(axis=2) < 1).mean())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A round that is not to be changed."""
    return write_round(tmp_path_factory.mktemp("rounds") / "seed-4711")


def test_a_page_shows_the_faults_their_cost_and_how_to_repeat_the_round(tmp_path: Path) -> None:
    out = write_round(tmp_path / "seed-4711")
    report = write_report(out)
    assert report == out / "report.html"
    seen = Seen(report.read_text())
    for words in (
        "Chaos round seed-4711",
        "Nothing wrong was found",
        "strandline-lab chaos --seconds 60 --seed 4711 --brokers 3 --controllers 2",
        "broker 1, broker 2, broker 3, controller 1, controller 2, zookeeper 1",
        "one-way",
        "this machine cannot fill a disk",
        "orders-1",
        "produce-p2.jsonl",
        "consume-group-eager-1.jsonl",
    ):
        assert words in seen.words
    assert "svg" in seen.elements
    assert not seen.elements & {"script", "link", "iframe", "img", "image"}, "it needs nothing but itself"
    assert all(each.startswith("#") for each in seen.attributes)
    assert coloured(out / "chart.png") > 0.1
    assert (out / "chart.svg").read_text().endswith("</svg>\n")


def test_findings_are_on_the_page_the_first_of_them(tmp_path: Path) -> None:
    found = [finding(f"record {number} is gone", number) for number in range(FINDINGS_SHOWN + 7)]
    write_lines(tmp_path / "findings.jsonl", found)
    seen = Seen(drawn(tmp_path))
    assert "Something wrong was found" in seen.words
    assert f"record {FINDINGS_SHOWN - 1} is gone" in seen.words
    assert f"record {FINDINGS_SHOWN} is gone" not in seen.words
    assert "and 7 more in findings.jsonl" in seen.words


def test_text_of_a_cluster_or_a_client_stays_text(tmp_path: Path) -> None:
    out = tmp_path / "<b>r"
    out.mkdir()
    write_lines(out / "findings.jsonl", [finding(HOSTILE)])
    observed = {
        "at_ms": T0,
        "observer": HOSTILE,
        "partition": 0,
        "leader": 1,
        "epoch": 1,
        "isr": [1],
        "hw": 1,
    }
    write_lines(out / "observations.jsonl", [{**observed, "topic": HOSTILE}])
    hurt = {
        "at_ms": T0,
        "event": "fault_began",
        "fault": 99,
        "kind": HOSTILE,
        "who": [HOSTILE],
        "detail": HOSTILE,
    }
    write_lines(out / "timeline.jsonl", [hurt, {"at_ms": T0 + 9, "event": HOSTILE}])
    (out / "plan.json").write_text(json.dumps(plan()))
    (out / "command.txt").write_text(HOSTILE)
    text = write_report(out).read_text()
    seen = Seen(text)
    assert not seen.elements & {"script", "b"}
    assert seen.words.count(HOSTILE) >= 5
    assert "<script" not in (out / "chart.svg").read_text()


@pytest.mark.parametrize(
    "missing",
    ["plan.json", "timeline", "observations", "produce", "consume", "findings", ""],
    ids=lambda each: each,
)
def test_every_part_of_a_round_may_be_missing(whole: Path, tmp_path: Path, missing: str) -> None:
    for path in whole.iterdir():
        if not path.name.startswith(missing):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    assert f"Chaos round {tmp_path.name}" in Seen(write_report(tmp_path).read_text()).words
    assert (tmp_path / "chart.png").stat().st_size


def test_an_interrupted_round_is_reported_as_such(tmp_path: Path) -> None:
    write_lines(tmp_path / "findings.jsonl", [])
    write_lines(
        tmp_path / "timeline.jsonl", [{"at_ms": T0, "event": "began"}, {"at_ms": T0 + 5, "event": "healed"}]
    )
    write_lines(tmp_path / "produce-p1.jsonl", [{"event": "sent"}])
    seen = Seen(drawn(tmp_path))
    assert "The round did not come to its end" in seen.words
    assert "Its last known event is “healed”." in seen.words
    assert "produce-p1.jsonl: 1 lines cannot be read" in seen.words


def test_a_page_may_have_no_picture(tmp_path: Path) -> None:
    assert "There is no picture" in Seen(drawn(tmp_path, "There is no picture")).words


def test_only_markup_is_markup() -> None:
    assert tag("p", "a < b", tag("b", 3), class_='"x"') == '<p class="&quot;x&quot;">a &lt; b<b>3</b></p>'
    assert tag("p", class_="") == "<p></p>"
    assert tag("meta", name="n") == '<meta name="n">'
    assert joined(Markup("<i>"), "<i>") == "<i>&lt;i&gt;"
