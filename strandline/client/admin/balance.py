"""Spreads replicas and preferred leaders evenly over brokers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from strandline.adapters.codecs.admin import ALTER_BALANCE, BALANCE, DESCRIBE_BALANCE
from strandline.client import arguments
from strandline.ports import Method, Request, Response
from strandline.vocabulary.admin import BalanceAction, BalanceDescription, BalancePlan, StartBalance


class BalanceAdmin(ABC):
    """A part of `Admin`, which asks the active controller."""

    @abstractmethod
    async def _ask_controller(self, method: Method[Request, Response], request: Request) -> Response: ...

    async def plan_balance(self, *, brokers: Iterable[int] = (), topics: Iterable[str] = ()) -> BalancePlan:
        """The moves that `start_balance` would make now. Nothing changes. Raises as it does."""
        return await self._ask_controller(BALANCE, _asked(brokers, topics, 0, validate_only=True))

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
        return await self._ask_controller(
            BALANCE, _asked(brokers, topics, throttle_bytes_per_s, validate_only=False)
        )

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


def _asked(
    brokers: Iterable[int], topics: Iterable[str], throttle_bytes_per_s: int, *, validate_only: bool
) -> StartBalance:
    return StartBalance(
        tuple(arguments.whole("broker", each, 0, arguments.INT32_MAX) for each in brokers),
        tuple(arguments.text("topic", each) for each in topics),
        arguments.whole("throttle_bytes_per_s", throttle_bytes_per_s, 0, arguments.INT64_MAX),
        validate_only,
    )
