"""Encodes the znode of a balance. Its moves stand by topic, since a thousand topics have to fit into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from strandline.adapters.zookeeper.znodes import BALANCE, dump, reading
from strandline.config.limits import BALANCE_REASONS_BYTES_MAX, PARTITIONS_PER_TOPIC_MAX, ZNODE_BYTES_MAX
from strandline.ids import TopicId, TopicPartition
from strandline.vocabulary.metadata import Balance, BalanceMove, BalanceState
from strandline.vocabulary.parsing.typed_json import broker_numbers, integer, text
from strandline.vocabulary.state_changes import dump_asked_by, load_asked_by
from strandline.vocabulary.topics import check_topic_name

HEAD_BYTES_MAX: Final = 8 * 1024
"""What a balance has beside its moves and reasons."""


def dump_balance(balance: Balance) -> bytes:
    topics: dict[str, Any] = {}
    for move in balance.moves:
        topic = topics.setdefault(move.name.topic, {"id": move.topic_id, "moves": []})
        topic["moves"].append(_raw(move))
    fields: dict[str, Any] = {
        "state": balance.state.value,
        "topics": topics,
        "count": balance.count,
        "throttle": balance.throttle_bytes_per_s,
        "at": balance.at_ms,
        "done": balance.done,
        "skipped": balance.skipped,
        "reasons": list(balance.reasons),
    }
    if balance.by is not None:
        fields["by"] = dump_asked_by(balance.by)
    return dump(fields)


def load_balance(data: bytes) -> Balance:
    with reading(BALANCE, data) as raw:
        moves = [move for name, topic in raw["topics"].items() for move in _moves(name, topic)]
        return Balance(
            BalanceState(text(raw["state"])),
            tuple(sorted(moves, key=lambda move: move.turn)),
            integer(raw["count"], least=0),
            integer(raw["throttle"], least=0),
            integer(raw["at"]),
            integer(raw["done"], least=0),
            integer(raw["skipped"], least=0),
            load_asked_by(raw.get("by")),
            tuple(text(each) for each in raw["reasons"]),
        )


def fitting(moves: Sequence[BalanceMove]) -> Sequence[BalanceMove]:
    """The first moves, as many as the znode can hold."""
    left = ZNODE_BYTES_MAX - HEAD_BYTES_MAX - BALANCE_REASONS_BYTES_MAX
    topics = set[str]()
    for number, move in enumerate(moves):
        if move.name.topic not in topics:
            topics.add(move.name.topic)
            left -= len(dump({move.name.topic: {"id": move.topic_id, "moves": []}}))
        left -= len(dump(_raw(move))) + 1
        if left < 0:
            return moves[:number]
    return moves


def _raw(move: BalanceMove) -> list[Any]:
    return [move.name.partition, list(move.before), list(move.after), move.bytes]


def _moves(name: str, topic: Mapping[str, Any]) -> Iterable[BalanceMove]:
    check_topic_name(name)
    topic_id = TopicId(text(topic["id"]))
    for number, before, after, size in topic["moves"]:
        partition = TopicPartition(name, integer(number, least=0, most=PARTITIONS_PER_TOPIC_MAX))
        yield BalanceMove(
            partition,
            topic_id,
            broker_numbers(before, least=0),
            broker_numbers(after, least=0),
            integer(size, least=0),
        )
