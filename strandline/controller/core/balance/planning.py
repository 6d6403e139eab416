"""Plans a balance: which partitions get which replicas, and what each broker has before and after.

First the brokers' numbers of replicas become even, with the fewest copies; then their numbers of preferred
leaders, by the order of replicas alone, which copies nothing. Among equal choices the one is taken that evens
out the bytes. Last, replicas of different sizes are exchanged if a disk has much more than another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

from strandline.controller.core.balance.exchanging import exchange_bytes
from strandline.controller.core.balance.layout import Held, Layout, Placement
from strandline.controller.core.balance.spreading import spread_leaders, spread_replicas
from strandline.controller.core.broker_list import listed
from strandline.controller.core.survey import Survey, SurveyedPartition
from strandline.errors import InvalidRequest, UnknownTopicOrPartition
from strandline.ids import BrokerId, TopicPartition, named_twice
from strandline.vocabulary.admin import BalancePlan, BrokerLoad
from strandline.vocabulary.metadata import BalanceMove

MOVES_MAX: Final = 5_000
"""Partitions that one balance changes. Another balance after it does the rest."""


def plan_balance(
    survey: Survey,
    *,
    brokers: Collection[BrokerId] = (),
    topics: Collection[str] = (),
    deleted: Collection[str] = (),
    sizes: Mapping[TopicPartition, int] | None = None,
) -> BalancePlan:
    """The moves to an even spread over `brokers`, none: over all that may get replicas.

    Only partitions of `topics` count and move, none: of all. Those that are being reassigned or deleted, or
    that no broker can lead, keep their replicas, and so do replicas on other brokers. `sizes` are the bytes
    of one replica. Raises InvalidRequest, UnknownTopicOrPartition.
    """
    for name in sorted(topics):
        if name not in survey.topics:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
    taking = _taking(survey, brokers)
    racks = {broker: registration.endpoint.rack for broker, registration in survey.live.items()}
    partitions = [each for each in survey.partitions if not topics or each.topic in topics]
    placements = [_placement(each, survey, deleted, sizes or {}) for each in partitions]
    layout = Layout(placements, taking, racks)
    before = _loads(layout)
    spread_replicas(layout)
    exchange_bytes(layout)
    spread_leaders(layout)
    moves = [
        BalanceMove(
            each.name,
            survey.topics[each.name.topic],
            each.replicas,
            tuple(layout.replicas[index]),
            each.bytes,
        )
        for index, each in enumerate(placements)
        if layout.is_changed(index)
    ]
    moves.sort(key=attrgetter("turn"))
    loads = [BrokerLoad(broker, *before[broker], *after) for broker, after in _loads(layout).items()]
    loads += _kept(placements, taking, survey)
    loads.sort(key=attrgetter("broker"))
    return BalancePlan(tuple(moves[:MOVES_MAX]), tuple(loads), max(0, len(moves) - MOVES_MAX))


def _placement(
    partition: SurveyedPartition,
    survey: Survey,
    deleted: Collection[str],
    sizes: Mapping[TopicPartition, int],
) -> Placement:
    settled = partition.reassignment is None and partition.topic not in deleted
    movable = settled and survey.may_be_led(partition)
    return Placement(partition.name, partition.wanted, sizes.get(partition.name, 0), movable)


def _taking(survey: Survey, named: Collection[BrokerId]) -> Sequence[BrokerId]:
    """The brokers to spread over. Raises InvalidRequest."""
    able = [host.id for host in survey.hosts if not survey.is_drained(host.id)]
    if (twice := named_twice(named)) is not None:
        raise InvalidRequest(f"broker {twice} is named twice")
    for broker in sorted(named):
        if broker not in able:
            raise InvalidRequest(
                f"broker {broker} can get no replicas: only {listed(able)} are alive, not about to stop, and "
                "not drained"
            )
    taking = sorted(named or able)
    if len(taking) < 2:
        raise InvalidRequest(f"a balance is between two or more brokers, and there is only {listed(taking)}")
    return taking


def _loads(layout: Layout) -> dict[BrokerId, tuple[int, int, int]]:
    """Replicas, preferred leaders and bytes of each broker."""
    return {broker: (held.replicas, held.leads, held.bytes) for broker, held in layout.held.items()}


def _kept(
    placements: Sequence[Placement], taking: Collection[BrokerId], survey: Survey
) -> Iterator[BrokerLoad]:
    """What the other brokers have and keep, with the reasons."""
    kept = defaultdict(Held, {broker: Held() for broker in survey.known if broker not in taking})
    for each in placements:
        for broker in each.replicas:
            if broker not in taking:
                kept[broker].replicas += 1
                kept[broker].leads += each.replicas[0] == broker
                kept[broker].bytes += each.bytes
    for broker, held in kept.items():
        has = held.replicas, held.leads, held.bytes
        yield BrokerLoad(broker, *has, *has, _why_kept(broker, survey))


def _why_kept(broker: BrokerId, survey: Survey) -> str:
    if (registration := survey.live.get(broker)) is None:
        return "not alive"
    if survey.is_drained(broker):
        return "drained"
    return "about to stop" if registration.shutting_down else "not named"


def fewest_copies(numbers: Mapping[BrokerId, int]) -> int:
    """The copies that an even spread of these numbers of replicas takes at least."""
    least, more = divmod(sum(numbers.values()), len(numbers))
    most = least + (more > 0)
    over = sum(max(0, number - most) for number in numbers.values())
    return max(over, sum(max(0, least - number) for number in numbers.values()))
