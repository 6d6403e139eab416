"""The view of a group for people and programs: its JSON, the warning about both protocols, short lists."""

from __future__ import annotations

import pytest

from strandline.cli.group.view import mixed_warning, view_json
from strandline.ids import TopicPartition
from strandline.report.text.partition_names import compact
from strandline.vocabulary.groups import CommittedOffset
from tests.consumer.described_groups import described, member, viewed

A = TopicPartition("t", 0)


def test_the_warning_names_the_members_of_each_protocol_and_how_to_go_on() -> None:
    """KIP-429: a group whose members never agree on a protocol falls into case 3.b forever."""
    view = viewed(described(member("m1", version=0), member("m2", version=1)))
    assert view_json(view)["rebalance_protocols"] == {"eager": ["m1"], "cooperative": ["m2"]}
    warning = mixed_warning(view)
    assert "Eager: m1." in warning
    assert "Cooperative: m2." in warning
    assert "rebalance_protocol=cooperative" in warning


def test_the_json_shape_is_the_documented_one() -> None:
    """docs/use/cli.md: the shape of `group describe`."""
    shape = view_json(viewed(described(member("m1", A, owned=())), {A: CommittedOffset(3)}, {A: 5}))
    assert shape == {
        "group": "g",
        "state": "Stable",
        "generation": 4,
        "type": "classic",
        "target_epoch": None,
        "protocol_type": "consumer",
        "protocol": "sticky",
        "leader": "m1",
        "coordinator": {"id": 2, "host": "broker2", "port": 9092},
        "reason": "a member came",
        "caused_by": "m2",
        "mixed": False,
        "rebalance_protocols": {"eager": [], "cooperative": ["m1"]},
        "lag": 2,
        "members": [
            {
                "member": "m1",
                "instance": None,
                "client_id": "client-m1",
                "host": "127.0.0.1",
                "rebalance_protocol": "cooperative",
                "topics": ["t"],
                "assigned": {"t": [0]},
                "owned": {},
                "protocol": "classic",
                "epoch": None,
                "revoking": {},
            }
        ],
        "partitions": [
            {
                "topic": "t",
                "partition": 0,
                "committed": 3,
                "start": None,
                "end": 5,
                "lag": 2,
                "note": None,
                "owner": None,
                "assigned_to": "m1",
            }
        ],
    }


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((), "-"), ((3,), "t:3"), ((0, 1, 2), "t:0-2"), ((0, 2, 3, 7), "t:0,2-3,7"), ((5, 4), "t:4-5")],
)
def test_runs_of_partitions_are_shortened_for_people(numbers: tuple[int, ...], text: str) -> None:
    """A member of a large group has hundreds."""
    assert compact(TopicPartition("t", number) for number in numbers) == text
