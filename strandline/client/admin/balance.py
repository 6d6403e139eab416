"""Spreads replicas and preferred leaders evenly over brokers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from strandline.adapters.codecs.admin import ALTER_BALANCE, BALANCE, DESCRIBE_BALANCE
from strandline.client import arguments
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Method, Request, Response
from strandline.vocabulary.admin import (
    BalanceAction,
    BalanceDescription,
    BalancePlan,
    PartitionBytes,
    StartBalance,
)
from strandline.vocabulary.log import DescribedReplicas
from strandline.vocabulary.metadata import ClusterMetadata

SIZES_MAX: Final = 15_000
"""Partitions whose sizes are asked for: a request to the controller has a bound."""

SIZES_WAIT_MS: Final = 2_000
"""Time for leaders to say how large their partitions are. The others count as empty."""


class BalanceAdmin(ABC):
    """A part of `Admin`, which asks the active controller."""

    @abstractmethod
    async def _ask_controller(self, method: Method[Request, Response], request: Request) -> Response: ...

    @abstractmethod
    async def metadata(self, topics: Sequence[str] | None = None) -> ClusterMetadata: ...

    @abstractmethod
    async def describe_replicas(
        self, partitions: Iterable[TopicPartition], *, wait_ms: int | None = None
    ) -> Mapping[TopicPartition, DescribedReplicas | StrandlineError]: ...

    async def plan_balance(self, *, brokers: Iterable[int] = (), topics: Iterable[str] = ()) -> BalancePlan:
        """The moves that `start_balance` would make now. Nothing changes. Raises as it does."""
        return await self._balance(brokers, topics, 0, validate_only=True)

    async def start_balance(
        self, *, brokers: Iterable[int] = (), topics: Iterable[str] = (), throttle_bytes_per_s: int = 0
    ) -> BalancePlan:
        """Spread replicas and preferred leaders evenly over these brokers, or over all that may get replicas;
        those of these topics, or of all.

        Returns the moves, none if the spread is even. The controller begins them in the background, a few at
        a time. The throttle bounds the copying to each partition's new replicas; 0: only the brokers' own
        bound.

        Raises InvalidRequest for a broker that can get no replicas, or while another balance is under way;
        UnknownTopicOrPartition, NotController.
        """
        return await self._balance(brokers, topics, throttle_bytes_per_s, validate_only=False)

    async def describe_balance(self) -> BalanceDescription:
        """How far the balance is that is under way, or how the last one ended. Raises NotController."""
        return await self._ask_controller(DESCRIBE_BALANCE, None)

    async def pause_balance(self) -> BalanceDescription:
        """Begin no more moves. Those that have begun continue. Raises InvalidRequest if there is no balance,
        NotController."""
        return await self._ask_controller(ALTER_BALANCE, BalanceAction.PAUSE)

    async def resume_balance(self) -> BalanceDescription:
        """Continue a paused balance. Raises as `pause_balance`."""
        return await self._ask_controller(ALTER_BALANCE, BalanceAction.RESUME)

    async def cancel_balance(self, *, revert: bool = False) -> BalanceDescription:
        """End the balance. Moves that have begun continue or, with `revert`, are taken back: those partitions
        keep the replicas that they had. Moves that are complete stay. Raises as `pause_balance`."""
        action = BalanceAction.REVERT if revert else BalanceAction.CANCEL
        return await self._ask_controller(ALTER_BALANCE, action)

    async def _balance(
        self, brokers: Iterable[int], topics: Iterable[str], throttle_bytes_per_s: int, *, validate_only: bool
    ) -> BalancePlan:
        named = tuple(arguments.text("topic", each) for each in topics)
        asked = StartBalance(
            arguments.brokers("broker", brokers),
            named,
            arguments.whole("throttle_bytes_per_s", throttle_bytes_per_s, 0, arguments.INT64_MAX),
            validate_only,
            await self._sizes(named),
        )
        return await self._ask_controller(BALANCE, asked)

    async def _sizes(self, topics: Sequence[str]) -> tuple[PartitionBytes, ...]:
        """Those that leaders tell this caller. A balance without them is less even in bytes, and no more."""
        try:
            found = (await self.metadata(topics or None)).topics
        except StrandlineError:
            return ()
        names = [
            TopicPartition(each.name, number) for each in found for number in range(len(each.partitions))
        ]
        described = await self.describe_replicas(names[:SIZES_MAX], wait_ms=SIZES_WAIT_MS)
        return tuple(
            PartitionBytes(name, each.size_bytes)
            for name, each in described.items()
            if not isinstance(each, StrandlineError) and each.error is None and each.size_bytes > 0
        )
