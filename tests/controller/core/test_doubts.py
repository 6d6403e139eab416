"""What a caller is warned of when it names replicas."""

from __future__ import annotations

from strandline.controller.core.doubts import doubts
from strandline.controller.core.topics import Brokers
from strandline.ids import BrokerId
from tests.controller.core.support.surveys import brokers


def cluster(
    racks: dict[int, str], *, leaving: tuple[int, ...] = (), emptied: tuple[int, ...] = ()
) -> Brokers:
    """Brokers 1 to 4 are alive, and 9 was once."""
    live = brokers((1, 2, 3, 4), racks, leaving)
    return Brokers(live, {*live, BrokerId(9)}, {BrokerId(broker) for broker in emptied})


RACKS = {1: "a", 2: "a", 3: "b", 4: "c"}


def test_what_is_in_order_raises_no_doubt() -> None:
    assert doubts("t-0", (1, 3, 4), cluster(RACKS)) == []
    assert doubts("t-0", (1, 2), cluster({})) == []


def test_brokers_that_are_not_there_or_go_are_named() -> None:
    found = doubts("t-0", (1, 2, 9, 3), cluster({}, leaving=(2,), emptied=(3,)))
    assert found == [
        "t-0: not alive, so that nothing is copied there yet: broker 2, 9",
        "t-0: being drained, so that it moves away again: broker 3",
    ]


def test_two_replicas_in_one_rack_are_named_if_there_are_enough_racks() -> None:
    same = "t-0: in the same rack a, though there are 3 racks: brokers 1, 2"
    assert doubts("t-0", (1, 2, 3), cluster(RACKS)) == [same]
    assert doubts("t-0", (1, 2, 3, 4), cluster(RACKS)) == [], "three racks for four replicas"
    assert doubts("t-0", (1, 2), cluster({1: "a", 2: "a", 3: "b"})) == [], "broker 4 has no rack"
