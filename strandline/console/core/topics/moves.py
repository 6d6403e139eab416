"""What moving replicas and leaderships would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.client.admin.moves import ReassignmentProgress
from strandline.client.admin.topics import PartitionDescription, TopicDescription
from strandline.console.core.changes import Effect, Fact, Table
from strandline.console.core.words import bytes_, counted, duration, listed, number
from strandline.errors import InvalidRequest, NoReassignmentInProgress
from strandline.ids import NO_BROKER
from strandline.vocabulary.admin import BalanceAction, BalanceDescription, BalancePlan, OngoingReassignment
from strandline.vocabulary.metadata import TopicMetadata, throttled_ms

NO_LIMIT: Final = "without a limit but those of the brokers"


def reassignment(
    topic: TopicDescription,
    partition: PartitionDescription,
    replicas: Sequence[int],
    throttle_bytes_per_s: int,
    ongoing: OngoingReassignment | None,
    warnings: Sequence[str],
) -> Effect:
    """Other replicas for a partition, or the same in another order. Raises InvalidRequest if it has them."""
    name = f"{topic.name}-{partition.partition}"
    before = partition.replicas if ongoing is None else ongoing.original
    if ongoing is None and tuple(replicas) == before:
        raise InvalidRequest(f"{name} has replicas {listed(replicas)} already: name others, or another order")
    added = [broker for broker in replicas if broker not in before]
    removed = [broker for broker in before if broker not in replicas]
    sentences = [f"{name} has replicas {listed(before)}, and gets {listed(replicas)}."]
    if added:
        copied = "an unknown number of bytes"
        if partition.size_bytes is not None:
            copied = bytes_(partition.size_bytes * len(added))
        who = f"Broker {added[0]} copies it" if len(added) == 1 else f"Brokers {listed(added)} copy it"
        sentences.append(f"{who}: {copied}, {_throttle(throttle_bytes_per_s)}.")
        if throttle_bytes_per_s and partition.size_bytes is not None:
            lacking = partition.size_bytes * len(added)
            sentences.append(_held(throttled_ms(lacking, throttle_bytes_per_s, copies=len(added))))
    if removed:
        gone = f"broker {removed[0]} deletes its replica"
        if len(removed) > 1:
            gone = f"brokers {listed(removed)} delete their replicas"
        sentences.append(f"Once all of these are in sync, {gone}.")
    if not added and not removed:
        sentences.append(f"Nothing is copied. Broker {replicas[0]} becomes the preferred leader.")
    if partition.leader in removed:
        sentences.append(f"Broker {partition.leader} leads it now; at the end another broker is elected.")
    if ongoing is not None:
        sentences.append(f"It replaces the move to {listed(ongoing.replicas)} that is under way.")
    doubts = list(warnings)
    if len(replicas) == 1:
        doubts.append(
            f"One replica remains: while broker {replicas[0]} is away, {name} can be neither written nor "
            "read, and if its disk is lost, so are the records."
        )
    return Effect(
        f"Move {name} to brokers {listed(replicas)}",
        tuple(sentences),
        {"topic_id": topic.topic_id, "replicas": partition.replicas, "ongoing": _fact(ongoing)},
        warnings=tuple(doubts),
    )


def taking_back(moves: Sequence[ReassignmentProgress]) -> Effect:
    """The cancellation of moves under way. Raises NoReassignmentInProgress if there are none, or if all are
    being taken back already."""
    found = [each for each in moves if not each.move.reverting]
    if not found:
        raise NoReassignmentInProgress("no such move is under way: it has ended, or is being taken back")
    rows = [
        (each.move.name, listed(each.move.replicas), listed(each.move.original), bytes_(each.bytes_done))
        for each in found
    ]
    return Effect(
        f"Cancel {counted(len(found), 'move')}",
        (
            "These partitions keep the replicas that they had before.",
            "What was copied to the new replicas is deleted.",
        ),
        {"moves": [_fact(each.move) for each in found]},
        (Table.of("Moves", ("partition", "moves to", "goes back to", "copied so far"), rows),),
    )


def throttling(moves: Sequence[ReassignmentProgress], throttle_bytes_per_s: int) -> Effect:
    """Another throttle for moves under way. Raises NoReassignmentInProgress if there are none."""
    if not moves:
        raise NoReassignmentInProgress("no such move is under way: it has ended")
    rows = []
    for each in moves:
        left = "unknown"
        if throttle_bytes_per_s and each.copies is not None and each.bytes_left is not None:
            copies = sum(not copy.in_sync for copy in each.copies)
            left = f"about {duration(throttled_ms(each.bytes_left, throttle_bytes_per_s, copies=copies))}"
        now = bytes_(each.move.throttle_bytes_per_s) + "/s" if each.move.throttle_bytes_per_s else "none"
        rows.append((each.move.name, now, bytes_(each.bytes_left), left))
    return Effect(
        f"Change the throttle of {counted(len(moves), 'move')}",
        (f"The new replicas of each partition are then copied {_throttle(throttle_bytes_per_s)}.",),
        {"moves": [_fact(each.move) for each in moves]},
        (Table.of("Moves", ("partition", "throttle now", "left to copy", "time left then"), rows),),
    )


def balance(plan: BalancePlan, throttle_bytes_per_s: int) -> Effect:
    """The moves of a balance. Raises InvalidRequest if the spread is even."""
    if not plan.moves:
        raise InvalidRequest("replicas and preferred leaders are spread evenly already: nothing moves")
    moves = [
        (each.name, listed(each.before), listed(each.after), bytes_(each.bytes * len(each.added)))
        for each in plan.moves
    ]
    loads = [
        (
            each.broker,
            f"{each.replicas_before} → {each.replicas_after}",
            f"{each.leads_before} → {each.leads_after}",
            f"{bytes_(each.bytes_before)} → {bytes_(each.bytes_after)}",
            each.kept_because,
        )
        for each in plan.loads
    ]
    left_out = (
        f" Left for another balance: {counted(plan.left_out, 'further move')}." if plan.left_out else ""
    )
    longest = ""
    if throttle_bytes_per_s and plan.copied_bytes:
        longest_ms = plan.longest_ms(throttle_bytes_per_s)
        longest = f" The largest move takes about {duration(longest_ms)} at this limit."
        if not longest_ms:
            longest = " All of them are so small that this limit hardly slows them down."
    return Effect(
        f"Balance: {counted(len(plan.moves), 'move')}",
        (
            f"{counted(plan.copies, 'copy', 'copies')} of replicas, {bytes_(plan.copied_bytes)} in all as "
            f"far as sizes are known, {_throttle(throttle_bytes_per_s, ' for each partition')}."
            f"{longest}{left_out}",
            "The controller begins the moves in the background, a few at a time.",
        ),
        {"moves": [[str(each.name), each.topic_id, each.before, each.after] for each in plan.moves]},
        (
            Table.of(
                "Brokers", ("broker", "replicas", "preferred leader of", "bytes", "takes no part"), loads
            ),
            Table.of("Moves", ("partition", "replicas now", "replicas after", "copied"), moves),
        ),
    )


_BALANCE_WORDS: Final = {
    BalanceAction.PAUSE: ("Pause the balance", "No further move begins. Those that have begun continue."),
    BalanceAction.RESUME: ("Resume the balance", "The moves that are left begin, a few at a time."),
    BalanceAction.CANCEL: ("Cancel the balance", "No further move begins. Those that have begun continue."),
    BalanceAction.REVERT: (
        "Cancel the balance, and take back its moves",
        "No further move begins. Partitions whose move has begun keep the replicas that they had.",
    ),
}


def balance_change(now: BalanceDescription, action: BalanceAction) -> Effect:
    """Pausing, resuming or ending a balance. Raises InvalidRequest if none is under way."""
    if not now.state.is_under_way:
        raise InvalidRequest(f"no balance is under way; the last one is {now.state}")
    title, sentence = _BALANCE_WORDS[action]
    return Effect(
        title,
        (
            sentence,
            f"The balance is {now.state}: of {counted(now.moves, 'move')} {number(now.done)} done, "
            f"{number(now.moving)} under way, and {number(now.left)} not begun.",
        ),
        {"at_ms": now.at_ms, "state": now.state.value},
    )


def drain(
    topics: Sequence[TopicMetadata], broker: int, *, replicas: bool, throttle_bytes_per_s: int
) -> Effect:
    """A broker without leaderships, and with `replicas` without replicas."""
    leads = {each.name: sum(p.leader == broker for p in each.partitions) for each in topics}
    holds = {each.name: sum(broker in p.replicas for p in each.partitions) for each in topics}
    rows = [(name, leads[name], holds[name]) for name in sorted(holds) if holds[name]]
    sentences = [
        f"Broker {broker} leads {counted(sum(leads.values()), 'partition')}; other replicas take over."
    ]
    if replicas:
        sentences.append(
            f"It has {counted(sum(holds.values()), 'replica')}; the controller moves them to other brokers, "
            f"a few at a time, {_throttle(throttle_bytes_per_s)}."
        )
    sentences.append("Leaderships and replicas stay away until the drain is ended.")
    return Effect(
        f"Drain broker {broker}",
        tuple(sentences),
        {"broker": broker, "topics": {name: each for name, each in holds.items() if each}},
        (Table.of("Topics on the broker", ("topic", "partitions it leads", "replicas"), rows),),
    )


def undrain(broker: int, *, is_drained: bool) -> Effect:
    """The end of a drain. Raises InvalidRequest if there is none."""
    if not is_drained:
        raise InvalidRequest(f"broker {broker} is not drained")
    return Effect(
        f"End the drain of broker {broker}",
        (
            f"Broker {broker} may get leaderships and replicas again.",
            "Moves under way go on. Nothing moves back by itself; a balance spreads replicas again.",
        ),
        {"broker": broker, "drained": True},
    )


def preferred_election(topic: TopicMetadata) -> Effect:
    """The preferred leaders as leaders. Raises InvalidRequest if they lead."""
    other = [each for each in topic.partitions if each.replicas and each.leader != each.replicas[0]]
    if not other:
        raise InvalidRequest(f"the preferred leaders of topic {topic.name} lead already")
    rows = [
        (
            each.partition,
            "none" if each.leader == NO_BROKER else each.leader,
            each.replicas[0],
            "yes" if each.replicas[0] in each.isr else "no: it cannot be elected now",
        )
        for each in other
    ]
    return Effect(
        f"Elect the preferred leaders of topic {topic.name}",
        (
            "The first replica of each of these partitions becomes its leader, if it is in sync.",
            "Clients notice the new leaders by themselves.",
        ),
        {
            "topic_id": topic.topic_id,
            "leaders": [[each.partition, each.leader, each.leader_epoch] for each in other],
        },
        (Table.of("Partitions", ("partition", "leader now", "leader after", "in sync"), rows),),
    )


def _fact(move: OngoingReassignment | None) -> Fact:
    """What a move is about, without what its progress changes."""
    if move is None:
        return None
    return [str(move.name), move.original, move.replicas, move.throttle_bytes_per_s, move.reverting]


def _throttle(bytes_per_s: int, of: str = "") -> str:
    return f"at most {bytes_(bytes_per_s)} a second{of}" if bytes_per_s else NO_LIMIT


def _held(throttled_ms: int) -> str:
    if not throttled_ms:
        return "It is so small that this limit hardly slows it down."
    return f"With this limit it takes about {duration(throttled_ms)}."
