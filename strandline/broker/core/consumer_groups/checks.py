"""Checks everything about a heartbeat that does not depend on the group."""

from __future__ import annotations

from strandline.broker.core.consumer_groups.target import ASSIGNORS
from strandline.broker.core.coordinators.names import wrong_text
from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.errors import InvalidRequest, UnknownMemberId, UnsupportedAssignor
from strandline.vocabulary.groups import AS_BEFORE, JOINS, LEAVES, LEAVES_FOR_A_WHILE, ConsumerHeartbeat


def check_beat(request: ConsumerHeartbeat, *, member_bytes_max: int, timeout_ms_max: int) -> None:
    """Raises InvalidRequest, UnsupportedAssignor, UnknownMemberId."""
    if not request.member.strip():
        raise InvalidRequest("a heartbeat without a member id: make one, and keep it for the whole process")
    for what, value in (
        ("member id", request.member), ("instance id", request.instance), ("rack", request.rack),
        ("client id", request.client_id),
    ):  # fmt: skip
        wrong = None if value is None else wrong_text(value, GROUP_ID_LENGTH_MAX)
        if wrong is not None:
            raise InvalidRequest(f"{what} {(value or '')[:GROUP_ID_LENGTH_MAX]!r} {wrong}")
    for what, value in (("instance id", request.instance), ("rack", request.rack)):
        if value is not None and not value.strip():
            raise InvalidRequest(f"{what} {value!r} is empty; a member without one sends null")
    said = sum(len(topic.encode()) for topic in request.topics or ()) + len((request.pattern or "").encode())
    if said > member_bytes_max:
        raise InvalidRequest(
            f"a subscription of {said} bytes, more than {member_bytes_max}", limit=member_bytes_max
        )
    _check_epoch(request, timeout_ms_max)
    if request.assignor is not None and request.assignor not in ASSIGNORS:
        raise UnsupportedAssignor(
            f"assignor {request.assignor[:GROUP_ID_LENGTH_MAX]!r}; known are {', '.join(ASSIGNORS)}"
        )


def _check_epoch(request: ConsumerHeartbeat, timeout_ms_max: int) -> None:
    """Checks what a member has to say at each step of its life."""
    if request.epoch == JOINS:
        if _says_nothing(request):
            raise UnknownMemberId(
                f"member {request.member!r} has left: it joins again with all that it wants"
            )
        if request.rebalance_timeout_ms == AS_BEFORE:
            raise InvalidRequest("a member that joins without a rebalance timeout")
        if request.owned is None or request.owned:
            raise InvalidRequest("a member that joins has no partitions: it sends an empty list of them")
        if request.topics is None and request.pattern is None:
            raise InvalidRequest("a member that joins without a subscription: names of topics, or a pattern")
    elif request.epoch == LEAVES_FOR_A_WHILE and request.instance is None:
        raise InvalidRequest(
            f"epoch {LEAVES_FOR_A_WHILE} of a member without an instance: it leaves by {LEAVES}"
        )
    elif request.epoch < LEAVES_FOR_A_WHILE:
        raise InvalidRequest(f"epoch {request.epoch} is below {LEAVES_FOR_A_WHILE}")
    if not -1 <= request.rebalance_timeout_ms <= timeout_ms_max:
        raise InvalidRequest(
            f"rebalance timeout of {request.rebalance_timeout_ms} ms, not between 0 and {timeout_ms_max} ms",
            limit=timeout_ms_max,
        )


def _says_nothing(request: ConsumerHeartbeat) -> bool:
    """As the heartbeat of a member that goes on. librdkafka before 2.15 sends one with epoch 0 after it left
    because of its `max.poll.interval.ms` (librdkafka#5541). It ends for good if it hears that the request is
    invalid, as from Kafka, and joins again if it hears that the member is not known."""
    subscription = request.topics, request.pattern, request.owned
    return request.rebalance_timeout_ms == AS_BEFORE and all(each is None for each in subscription)
