"""Looking after where replicas are from outside: moving them, and having preferred leaders lead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from strandline.client import arguments
from strandline.client.messages import (
    ElectUnclean,
    OngoingReassignment,
    PartitionReassignment,
    PartitionResult,
    Reassign,
    UncleanElection,
)
from strandline.client.wire.placement import ELECT_PREFERRED, ELECT_UNCLEAN, LIST_REASSIGNMENTS, REASSIGN
from strandline.errors import InvalidRequest
from strandline.ids import TopicPartition
from strandline.ports import Method, Request, Response


class PlacementAdmin(ABC):
    """A part of `Admin`, which asks the active controller."""

    @abstractmethod
    async def _ask_controller(self, method: Method[Request, Response], request: Request) -> Response: ...

    async def reassign(
        self,
        partitions: Mapping[TopicPartition, Sequence[int]],
        *,
        throttle_bytes_per_s: int = 0,
        validate_only: bool = False,
    ) -> None:
        """Have each of these partitions get these replicas, the preferred leader first.

        Returns once it is under way; `list_reassignments` has a partition until its replicas are all in
        sync and the others gone. To ask again while it is under way gives it another target. The throttle
        bounds what is sent to each partition's new replicas; 0: only the brokers' own bound.

        Raises the first refusal, with the others as notes, after all that were not refused are under way:
        UnknownTopicOrPartition, InvalidReplicaAssignment, InvalidReplicationFactor, …
        """
        asked = []
        for name, replicas in arguments.by_partition("partitions", partitions).items():
            if not replicas:
                raise InvalidRequest(f"replicas of {name}: name at least one; cancel_reassignment takes back")
            asked.append(PartitionReassignment(name, _brokers(name, replicas)))
        throttle = arguments.whole("throttle_bytes_per_s", throttle_bytes_per_s, 0, arguments.INT64_MAX)
        _raise_first(await self._ask_controller(REASSIGN, Reassign(asked, throttle, validate_only)))

    async def cancel_reassignment(self, partitions: Iterable[TopicPartition]) -> None:
        """Take back what is under way: these partitions keep the replicas that they had before.

        Returns once that is under way in turn. Raises as `reassign`; NoReassignmentInProgress.
        """
        asked = [PartitionReassignment(name, ()) for name in arguments.partitions(partitions)]
        _raise_first(await self._ask_controller(REASSIGN, Reassign(asked)))

    async def list_reassignments(self) -> Sequence[OngoingReassignment]:
        """Every partition whose replicas are on their way, and who is in sync. Raises NotController."""
        return await self._ask_controller(LIST_REASSIGNMENTS, None)

    async def elect_preferred(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> Sequence[PartitionResult]:
        """Have each of these partitions be led by its preferred leader, the first of its replicas, and wait.

        What became of each, in order: without an error its preferred leader leads now. ElectionNotNeeded says
        that it did already. Without partitions all are meant, and the result has those that others led.

        Raises NotController, InvalidRequest for too many partitions at once.
        """
        names: Sequence[TopicPartition] = [] if partitions is None else arguments.partitions(partitions)
        if partitions is not None and not names:
            return []
        return await self._ask_controller(ELECT_PREFERRED, names)

    async def elect_unclean(
        self, partitions: Iterable[TopicPartition] | None = None, *, validate_only: bool = False
    ) -> Sequence[UncleanElection]:
        """Have partitions that nobody leads be led by the longest log that is back, although records
        that were committed are lost by it, and wait. With `validate_only` nothing is done: the answer says
        what would be.

        What became of each, in order. ElectionNotNeeded says that a partition is led;
        EligibleLeadersNotAvailable that no replica can be chosen now, or that one may lead without a loss.
        Without partitions all are meant, and the result has those that nobody leads.

        Raises NotController, InvalidRequest for too many partitions at once.
        """
        names: Sequence[TopicPartition] = [] if partitions is None else arguments.partitions(partitions)
        if partitions is not None and not names:
            return []
        return await self._ask_controller(ELECT_UNCLEAN, ElectUnclean(names, validate_only))


def _brokers(name: TopicPartition, replicas: Sequence[int]) -> tuple[int, ...]:
    return tuple(arguments.whole(f"replica of {name}", each, 0, arguments.INT32_MAX) for each in replicas)


def _raise_first(results: Sequence[PartitionResult]) -> None:
    errors = [(result.name, result.error) for result in results if result.error is not None]
    if errors:
        first = errors[0][1]
        for name, error in errors[1:]:
            first.add_note(f"{name}: {error.message}")
        raise first
