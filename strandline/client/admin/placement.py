"""Moves replicas, and elects preferred or unclean leaders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from strandline.adapters.codecs.admin import ELECT_PREFERRED, ELECT_UNCLEAN, LIST_REASSIGNMENTS, REASSIGN
from strandline.client import arguments
from strandline.client.admin.moves import ReassignmentProgress, reassignment_progress
from strandline.client.admin.refusals import raise_first
from strandline.config.limits import PARTITIONS_PER_REQUEST_MAX
from strandline.errors import InvalidRequest, NoReassignmentInProgress, StrandlineError
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.ports import Method, Request, Response
from strandline.vocabulary.admin import (
    NO_DEADLINE,
    ElectUnclean,
    OngoingReassignment,
    PartitionReassignment,
    PartitionResult,
    Reassign,
    UncleanElection,
)
from strandline.vocabulary.log import DescribedReplicas

LEADERS_WAIT_MS: Final = 500
"""How long a description waits for what leaders know of their partitions."""

Described = Mapping[TopicPartition, DescribedReplicas | StrandlineError]


class PlacementAdmin(ABC):
    """A part of `Admin`, which asks the active controller."""

    @abstractmethod
    async def _ask_controller(self, method: Method[Request, Response], request: Request) -> Response: ...

    @abstractmethod
    async def describe_replicas(
        self, partitions: Iterable[TopicPartition], *, wait_ms: int | None = None
    ) -> Described: ...

    async def reassign(
        self,
        partitions: Mapping[TopicPartition, Sequence[int]],
        *,
        throttle_bytes_per_s: int = 0,
        validate_only: bool = False,
        timeout_ms: int | None = None,
        cancel_at_deadline: bool = False,
        topic_ids: Mapping[str, TopicId] | None = None,
    ) -> Sequence[str]:
        """Give each of these partitions these replicas, the preferred leader first. Returns warnings: of
        brokers that are not alive or that are drained, and of replicas in one rack.

        Returns once the moves have begun. `list_reassignments` lists a partition until all its replicas are
        in sync and the old ones are removed. Another call meanwhile changes the target. The throttle bounds
        the copying to each partition's new replicas; 0: only the brokers' own bound.

        A move that is not complete after `timeout_ms` is overdue: that is recorded and counted, and with
        `cancel_at_deadline` it is taken back. None: after the controller's reassignment_timeout_ms; 0: never.

        A topic in `topic_ids` that has another id stays as it is: it was made anew.

        Raises the first refusal, with the others as notes, once all other moves have begun: InvalidRequest,
        UnknownTopicOrPartition, InvalidReplicaAssignment, InvalidReplicationFactor, …
        """
        asked = []
        for name, replicas in arguments.by_partition("partitions", partitions).items():
            if not replicas:
                raise InvalidRequest(f"replicas of {name}: name at least one; cancel_reassignment takes back")
            brokers = arguments.brokers(f"replica of {name}", replicas)
            topic_id = (topic_ids or {}).get(name.topic, NO_TOPIC_ID)
            asked.append(PartitionReassignment(name, brokers, topic_id=topic_id))
        throttle = arguments.whole("throttle_bytes_per_s", throttle_bytes_per_s, 0, arguments.INT64_MAX)
        timeout = 0
        if timeout_ms is not None:
            timeout = arguments.whole("timeout_ms", timeout_ms, 0, arguments.INT64_MAX) or NO_DEADLINE
        if cancel_at_deadline and timeout == NO_DEADLINE:
            raise InvalidRequest("cancel_at_deadline needs a deadline: timeout_ms = 0 is none")
        wanted = Reassign(asked, throttle, validate_only, timeout, bool(cancel_at_deadline))
        return await self._reassign(wanted)

    async def cancel_reassignment(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo reassignments in progress: these partitions keep the replicas that they had before.

        Returns once that has begun. Raises as `reassign`; NoReassignmentInProgress.
        """
        asked = [PartitionReassignment(name, ()) for name in arguments.partitions(partitions)]
        await self._reassign(Reassign(asked))

    async def throttle_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, throttle_bytes_per_s: int
    ) -> Sequence[TopicPartition]:
        """Change the throttle of reassignments in progress, of these partitions or of all (None), and nothing
        else of them. Bytes a second to each partition's new replicas; 0: only the brokers' own bounds.

        Returns the partitions; leaders use the new throttle a moment later. Raises NotController, and the
        first refusal, with the others as notes: NoReassignmentInProgress for a named partition that has none.
        """
        throttle = arguments.whole("throttle_bytes_per_s", throttle_bytes_per_s, 0, arguments.INT64_MAX)
        if partitions is None:
            names: Sequence[TopicPartition] = [move.name for move in await self.list_reassignments()]
        else:
            names = arguments.partitions(partitions)
        changed: list[TopicPartition] = []
        errors: list[tuple[TopicPartition, StrandlineError | None]] = []
        for start in range(0, len(names), PARTITIONS_PER_REQUEST_MAX):
            some = names[start : start + PARTITIONS_PER_REQUEST_MAX]
            asked = [PartitionReassignment(name, (), only_throttle=True) for name in some]
            for result in await self._ask_controller(REASSIGN, Reassign(asked, throttle)):
                if result.error is None:
                    changed.append(result.name)
                elif partitions is not None or not isinstance(result.error, NoReassignmentInProgress):
                    errors.append((result.name, result.error))  # of all, some end meanwhile
        raise_first(errors)
        return changed

    async def list_reassignments(self) -> Sequence[OngoingReassignment]:
        """The reassignments in progress, with the in-sync replicas. Raises NotController."""
        return await self._ask_controller(LIST_REASSIGNMENTS, None)

    async def reassignment_progress(self) -> list[ReassignmentProgress]:
        """The reassignments in progress, with what is copied, what is left, how fast and for how long.

        The leaders tell the latter; it is unknown for a partition that has none at the moment. Raises
        NotController.
        """
        ongoing = await self.list_reassignments()
        names = [move.name for move in ongoing]
        answers = await self.describe_replicas(names, wait_ms=LEADERS_WAIT_MS)
        return [reassignment_progress(move, answers.get(move.name)) for move in ongoing]

    async def elect_preferred(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> Sequence[PartitionResult]:
        """Make the first replica of each of these partitions, the preferred leader, its leader, and wait.

        Returns a result for each, in order: without an error its preferred leader leads now.
        ElectionNotNeeded: it did so before. None: all partitions; the result has those with another leader.

        Raises NotController, InvalidRequest for too many partitions at once.
        """
        names: Sequence[TopicPartition] = [] if partitions is None else arguments.partitions(partitions)
        if partitions is not None and not names:
            return []
        return await self._ask_controller(ELECT_PREFERRED, names)

    async def elect_unclean(
        self,
        partitions: Iterable[TopicPartition] | Mapping[TopicPartition, TopicId] | None = None,
        *,
        validate_only: bool = False,
    ) -> Sequence[UncleanElection]:
        """Make the replica with the longest available log the leader of partitions without one, and wait.

        Committed records are lost by this. With `validate_only` nothing is done: the result says what would
        happen. With ids of topics, such as those of that result, nothing is done in a topic with another id:
        it was made anew. Returns a result for each, in order. ElectionNotNeeded: the partition has a leader.
        EligibleLeadersNotAvailable: no replica can be chosen now, or one may lead without a loss. None: all
        partitions; the result has those without a leader.

        Raises NotController, InvalidRequest for too many partitions at once.
        """
        names: Sequence[TopicPartition] = [] if partitions is None else arguments.partitions(partitions)
        if partitions is not None and not names:
            return []
        ids = list(partitions.values()) if isinstance(partitions, Mapping) else []
        return await self._ask_controller(ELECT_UNCLEAN, ElectUnclean(names, validate_only, ids))

    async def _reassign(self, wanted: Reassign) -> list[str]:
        results = await self._ask_controller(REASSIGN, wanted)
        raise_first((each.name, each.error) for each in results)
        return [warning for each in results for warning in each.warnings]
