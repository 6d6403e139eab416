"""Checks the arguments of a description: names, serdes, functions, numbers of partitions."""

from __future__ import annotations

import inspect
from typing import Any, Final

from strandline.config.limits import PARTITIONS_PER_TOPIC_MAX, TOPIC_NAME_LENGTH_MAX
from strandline.errors import InvalidTopic
from strandline.ids import INTERNAL_PREFIX
from strandline.streams.topology.errors import TopologyError
from strandline.vocabulary.topics import check_topic_name

_ASYNC_KINDS: Final = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)


def check_name(name: object, what: str) -> None:
    """Check the name of a topic, a store, a repartition or an application: the rules for topic names hold for
    all.

    Raises TopologyError.
    """
    if not isinstance(name, str):
        raise TopologyError(f"{what} {name!r} is {type(name).__name__}: give it as a str")
    try:
        check_topic_name(name)
    except InvalidTopic as error:
        raise TopologyError(
            f"{what} {name!r} is no legal name ({error.message}): choose another one"
        ) from None
    if name.startswith(INTERNAL_PREFIX):
        raise TopologyError(
            f"{what} {name!r}: names that begin with {INTERNAL_PREFIX!r} are the system's own; choose another"
        )


def internal_topic(application_id: str, name: str, purpose: str) -> str:
    """The name of a topic that the application creates for itself. Raises TopologyError if it is too long."""
    topic = f"{application_id}-{name}-{purpose}"
    if len(topic) > TOPIC_NAME_LENGTH_MAX:
        raise TopologyError(
            f"topic {topic!r} would have {len(topic)} characters, {TOPIC_NAME_LENGTH_MAX} are allowed: "
            f"shorten the application id {application_id!r} or {name!r}"
        )
    return topic


def check_serde(serde: object, what: str) -> None:
    """Raises TopologyError for an object without `encode` and `decode`, and for a class instead of an
    instance."""
    if isinstance(serde, type):
        raise TopologyError(f"{what} is the class {serde.__name__}: give an instance, {serde.__name__}()")
    if not (callable(getattr(serde, "encode", None)) and callable(getattr(serde, "decode", None))):
        raise TopologyError(f"{what} {serde!r} is no serde: it needs encode and decode, as STRING has them")


def check_function(f: object, operator: str) -> None:
    """Raises TopologyError for an object that is not callable, or that must be awaited."""
    if not callable(f):
        raise TopologyError(f"{operator}({f!r}): give a function")
    call = getattr(f, "__call__", None)  # noqa: B004  # for a callable object
    if any(is_async(f) or is_async(call) for is_async in _ASYNC_KINDS):
        raise TopologyError(
            f"{operator}({function_name(f)}): it is asynchronous; give a plain function, one that never waits"
        )


def check_partitions(partitions: object, name: str) -> None:
    """Raises TopologyError unless it is None or a legal number of partitions."""
    if partitions is None:
        return
    if type(partitions) is not int or not 1 <= partitions <= PARTITIONS_PER_TOPIC_MAX:
        raise TopologyError(
            f"repartition {name!r}: partitions={partitions!r}; say 1 to {PARTITIONS_PER_TOPIC_MAX}, "
            "or nothing for as many as its source has"
        )


def function_name(f: Any) -> str:
    """The function's name in its source."""
    return str(getattr(f, "__qualname__", None) or repr(f))
