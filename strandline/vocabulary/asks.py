"""Requests to a coordinator, each with the type of its answer."""

from __future__ import annotations

from typing import Generic, TypeVar

Answered = TypeVar("Answered")


class Asks(Generic[Answered]):
    """A request that a coordinator answers by an `Answered`, or refuses."""

    __slots__ = ()
