"""A whole round that never was: three brokers, two topics, a minute, and what clients would have seen."""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

T0: Final = 1_795_336_400_000
SECONDS: Final = 60
REPLICAS: Final = frozenset({1, 2, 3})
TOPICS: Final = {"orders": 3, "visits": 2}
Line = dict[str, Any]

FAULTS: Final[Sequence[tuple[str, str, str, float, float, tuple[str, ...]]]] = (
    ("kill", "broker", "leader", 6.0, 6.0, ("broker 1",)),
    ("pause", "broker", "any", 18.0, 7.0, ("broker 2",)),
    ("kill", "controller", "active", 20.0, 8.0, ("controller 1",)),
    ("reassign", "broker", "any", 27.0, 0.5, ()),
    ("kill", "zookeeper", "any", 31.0, 5.0, ("zookeeper 1",)),
    ("one-way", "broker", "any", 33.0, 4.0, ("broker 3", "broker 2")),
    ("chase", "broker", "leader", 41.0, 7.0, ("broker 2", "broker 3")),
)
"""Kind, role, target, begin, length, member."""

AWAY: Final = {1: [(6.0, 13.0)], 2: [(18.0, 25.4), (41.0, 49.1)], 3: [(44.0, 50.2)]}
"""When each broker was out of every ISR."""


def write_lines(path: Path, lines: Sequence[Line]) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def ms(at_s: float) -> int:
    """As wall time."""
    return T0 + round(at_s * 1000)


def away(broker: int, at_s: float) -> bool:
    return any(begin <= at_s < end for begin, end in AWAY[broker])


def leader(partition: int, at_s: float) -> int:
    """The first live broker in sync, in the partition's own order; none for a moment after the leader
    went."""
    order = [(partition + turn) % 3 + 1 for turn in range(3)]
    for begin, end in (span for broker in AWAY for span in AWAY[broker]):
        takes_s = 0.25 if begin != 18.0 else 2.6  # a paused broker is missed when its session ends
        went = next(each for each in order if not away(each, begin - 0.1))
        if begin <= at_s < min(end, begin + takes_s) and away(went, at_s):
            return -1
    return next(each for each in order if not away(each, at_s))


def plan(seed: int = 4711) -> Line:
    names = ("kind", "role", "target", "number", "begins_s", "lasts_s", "other")
    return {
        "seed": seed,
        "seconds": SECONDS,
        "members": [*(f"broker {n}" for n in (1, 2, 3)), "controller 1", "controller 2", "zookeeper 1"],
        "topics": [{"topic": topic, "partitions": count} for topic, count in TOPICS.items()],
        "faults": [
            *(dict(zip(names, (*fault[:3], 1, *fault[3:5], -1), strict=True)) for fault in FAULTS),
            dict(zip(names, ("disk-full", "broker", "any", 2, 52.0, 3.0, -1), strict=True)),
        ],
    }


def timeline() -> list[Line]:
    lines: list[Line] = [{"at_ms": T0, "event": "began"}]
    for number, (kind, _, _, begins, lasts, who) in enumerate(FAULTS):
        about = {"fault": number, "kind": kind, "who": list(who)}
        lines.append({"at_ms": ms(begins), "event": "fault_began", "detail": "", **about})
        lines.append({"at_ms": ms(begins + lasts), "event": "fault_ended", "detail": "", **about})
    skipped = {"fault": len(FAULTS), "kind": "disk-full", "detail": "this machine cannot fill a disk"}
    lines.append({"at_ms": ms(52), "event": "fault_skipped", **skipped})
    lines.append({"at_ms": ms(54), "event": "healed"})
    lines.append({"at_ms": ms(54.4), "event": "writable", "took_ms": 400})
    lines.append({"at_ms": ms(56.1), "event": "settled", "took_ms": 2100, "detail": ""})
    lines.append({"at_ms": ms(SECONDS), "event": "ended"})
    return sorted(lines, key=lambda line: line["at_ms"])


def places() -> list[tuple[str, int, int]]:
    """Topic, partition, and a number over all."""
    both = [(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]
    return [(topic, partition, number) for number, (topic, partition) in enumerate(both)]


def produced(chance: random.Random) -> dict[str, list[Line]]:
    """Two producers, each 50 records a second, in turn to all partitions. Records without a leader wait."""
    histories = {}
    for producer in ("p1", "p2"):
        events: list[tuple[float, Line]] = []
        for record in range(50 * (SECONDS - 3)):
            at_s = 0.2 + record / 50 + chance.random() / 200
            topic, partition, number = places()[record % len(places())]
            common = {"record": record, "topic": topic}
            events.append((at_s, {"event": "sent", **common, "key": None, "value": f"{producer}-{record}"}))
            waits_s = next(w / 20 for w in range(200) if leader(number, at_s + w / 20) >= 0)
            done_s = at_s + waits_s + 0.0012 + chance.expovariate(1 / 0.0008) + waits_s * chance.random() / 9
            if record % 7 == 3 and waits_s > 1:
                error = {
                    "code": 7,
                    "error": "RequestTimedOut",
                    "outcome": "unknown outcome",
                    "message": "late",
                }
                events.append((done_s, {"event": "failed", **common, **error}))
            else:
                events.append(
                    (done_s, {"event": "acked", **common, "partition": partition, "offset": record})
                )
        events.sort(key=lambda event: event[0])
        histories[producer] = [
            {"event": line["event"], "seq": seq, "at": ms(at_s), "monotonic_ms": at_s * 1000, **line}
            for seq, (at_s, line) in enumerate(events)
        ]
    return histories


def observed(histories: Mapping[str, Sequence[Line]]) -> list[Line]:
    """All partitions, four times a second."""
    acked: dict[tuple[str, int], list[int]] = defaultdict(list)
    for line in (line for lines in histories.values() for line in lines if line["event"] == "acked"):
        acked[line["topic"], line["partition"]].append(line["at"])
    lines: list[Line] = []
    for topic, partition, number in places():
        times = sorted(acked[topic, partition])
        epoch, led_before = 1, leader(number, 0)
        for at_s in (tick / 4 for tick in range(4 * SECONDS)):
            led_by = leader(number, at_s)
            epoch += led_by not in (led_before, -1)
            led_before = led_by if led_by >= 0 else led_before
            hw = bisect_right(times, ms(at_s)) if led_by >= 0 else None
            isr = sorted(broker for broker in REPLICAS if not away(broker, at_s))
            name = {"topic": topic, "partition": partition, "observer": "admin"}
            lines.append(
                {"at_ms": ms(at_s), **name, "leader": led_by, "epoch": epoch, "isr": isr, "hw": hw, "leo": hw}
            )
    return sorted(lines, key=lambda line: line["at_ms"])


def write_round(out: Path, *, findings: Sequence[Line] = ()) -> Path:
    """All of its files."""
    chance = random.Random(7)
    out.mkdir(parents=True, exist_ok=True)
    (out / "plan.json").write_text(json.dumps(plan()))
    histories = produced(chance)
    write_lines(out / "timeline.jsonl", timeline())
    write_lines(out / "observations.jsonl", observed(histories))
    write_lines(out / "findings.jsonl", findings)
    received = []
    for producer, lines in histories.items():
        write_lines(out / f"produce-{producer}.jsonl", lines)
        received += [
            line | {"event": "received", "at": line["at"] + 3} for line in lines if line["event"] == "acked"
        ]
    received.sort(key=lambda line: line["at"])
    write_lines(out / "consume-assign-1.jsonl", received)
    write_lines(out / "consume-group-eager-1.jsonl", [line for line in received if line["partition"] != 1])
    return out
