"""Waiting for a condition, on the time of the running loop, with a deadline."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from strandline.testing.errors import ConditionNotReached, Vacant

T = TypeVar("T")

POLL_S: Final = 0.001
POLL_S_MAX: Final = 0.01
"""Between two looks: at first, and after a while."""


async def reached(
    condition: Callable[[], T | Awaitable[T]], timeout_s: float, what: str, describe: Callable[[], str]
) -> T:
    """The first true value of the condition. An error that it raises ends the wait, but for Vacant:
    then it is not true yet.

    Raises ConditionNotReached, with the last value and what `describe` returns.
    """
    last: Any = None
    looks, pause_s = 0, POLL_S
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            while True:
                looks += 1
                last, is_true = await _look(condition)
                if is_true:
                    return cast(T, last)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, POLL_S_MAX)
    except TimeoutError:
        if not limit.expired():
            raise  # the condition raised it
        raise ConditionNotReached(
            f"not reached within {timeout_s} s: {what or described(condition)}\n"
            f"last of {looks} looks: {last!r}\n{describe()}"
        ) from None


async def _look(condition: Callable[[], object]) -> tuple[object, bool]:
    """The value of a condition, and whether it is true."""
    try:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
    except Vacant as error:
        return error, False
    return value, bool(value)


def described(condition: Callable[[], object]) -> str:
    """The text of a condition, as far as it can be found."""
    name: str | None = getattr(condition, "__name__", None)
    if name is None:
        return repr(condition)
    if name != "<lambda>":
        return f"{name}()"
    try:
        return " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):
        return name
