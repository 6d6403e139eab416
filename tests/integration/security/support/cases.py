"""One request for each RPC and each Kafka API, and the rights that it takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from strandline.errors import ErrorCode, StrandlineError
from strandline.security.acls import CLUSTER_NAME, ResourceType
from strandline.security.rights import Right

TOPIC: Final = "tides"
GROUP: Final = "harbour"
TRANSACTIONAL_ID: Final = "ebb"
REFUSED: Final = frozenset(
    {
        int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        int(ErrorCode.GROUP_AUTHORIZATION_FAILED),
        int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    }
)


def nothing_hidden(answer: Any) -> bool:
    return False


@dataclass(frozen=True)
class Case:
    """`what` is a method or an API's description; `needs` are rights on `topic`, GROUP,
    TRANSACTIONAL_ID and the cluster.
    `hidden` says of an answer that what the caller may not see was left out."""

    what: Any
    request: Any
    needs: tuple[Right, ...]
    hidden: Callable[[Any], bool] = nothing_hidden
    label: str = ""
    topic: str = TOPIC
    """What the rights to a topic are about."""
    version: int | None = None
    """Of a Kafka API; None: the last one."""

    @property
    def name(self) -> str:
        """The path of an RPC, or an API's name."""
        name: str = getattr(self.what, "path", None) or self.what.name
        return name

    @property
    def resources(self) -> list[tuple[Right, str]]:
        """The rights, each with the name of its resource."""
        names = {
            ResourceType.TOPIC: self.topic,
            ResourceType.GROUP: GROUP,
            ResourceType.CLUSTER: CLUSTER_NAME,
            ResourceType.TRANSACTIONAL_ID: TRANSACTIONAL_ID,
        }
        return [(right, names[right.of]) for right in self.needs]

    def __str__(self) -> str:
        return f"{self.name.rpartition('/')[2]} {self.label}".strip()

    def is_refused(self, outcome: Any) -> bool:
        """Whether an answer, or the error of the whole call, refuses the request or a part of it."""
        refused = REFUSED.intersection(codes(outcome))
        return bool(refused) or (not isinstance(outcome, StrandlineError) and self.hidden(outcome))


def codes(outcome: Any) -> Iterator[int]:
    """The numbers of all errors in an answer: typed errors of an RPC, fields of a Kafka answer."""
    if isinstance(outcome, StrandlineError):
        yield int(outcome.code)
    elif isinstance(outcome, str | bytes):
        return
    elif isinstance(outcome, tuple) and hasattr(outcome, "_asdict"):
        fields = outcome._asdict()
        yield from (fields[name] for name in ("error", "config_error") if isinstance(fields.get(name), int))
        yield from _of_each(fields.values())
    elif dataclasses.is_dataclass(outcome):
        yield from _of_each(getattr(outcome, field.name) for field in dataclasses.fields(outcome))
    elif isinstance(outcome, dict):
        yield from _of_each(outcome.values())
    elif isinstance(outcome, Iterable):
        yield from _of_each(outcome)


def _of_each(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        yield from codes(value)
