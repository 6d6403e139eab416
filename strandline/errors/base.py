"""What every error has, and how one is made from its number on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final

from strandline.error_codes import ErrorCode


class Outcome(Enum):
    """Whether a request that failed took effect."""

    RETRIABLE = "retriable"
    FATAL = "fatal"
    UNKNOWN = "unknown outcome"


@dataclass(frozen=True, slots=True)
class LeaderHint:
    """The leader that the answering broker knows, so that a client need not look it up."""

    broker_id: int
    host: str
    port: int
    leader_epoch: int
    external: tuple[str, int] | None = None
    """As `Endpoint.external`. A client never sees it: the broker puts the address that the client
    can use into `host` and `port`."""


MESSAGE_CHARS_MAX: Final = 2_000
"""The longest error message. Messages name invalid values, which may be as long as a request."""


def _shortened(message: str) -> str:
    if len(message) <= MESSAGE_CHARS_MAX:
        return message
    return f"{message[:MESSAGE_CHARS_MAX]}… ({len(message)} characters)"


_BY_CODE: Final[dict[ErrorCode, type[StrandlineError]]] = {}
"""The exception for each wire error: the first class with its number."""


class StrandlineError(Exception):
    """Any failure that strandline reports.

    `code` is sent on the wire; `outcome` says whether the request took effect; `leader`, `limit`
    and `retry_after_ms` are facts that the caller can act on, where there are any.
    """

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    outcome: ClassVar[Outcome] = Outcome.FATAL

    def __init_subclass__(cls) -> None:
        if "code" in vars(cls):
            _BY_CODE.setdefault(cls.code, cls)

    def __init__(
        self,
        message: str,
        *,
        leader: LeaderHint | None = None,
        limit: int | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        self.message = _shortened(message)
        super().__init__(self.message)
        self.leader = leader
        self.limit = limit
        self.retry_after_ms = retry_after_ms

    @property
    def retriable(self) -> bool:
        """True if a retry may help (for an idempotent producer: also after an unknown outcome)."""
        return self.outcome is not Outcome.FATAL


class Retriable(StrandlineError):
    outcome = Outcome.RETRIABLE


class Unknown(StrandlineError):
    outcome = Outcome.UNKNOWN


class UnknownServerError(StrandlineError):
    """The broker failed in an unexpected way; its log has the details."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR
    outcome = Outcome.UNKNOWN


def error_for(
    code: int, message: str, *, leader: LeaderHint | None = None, limit: int | None = None
) -> StrandlineError:
    """The exception for a wire error; an unknown number becomes `UnknownServerError`."""
    try:
        cls = _BY_CODE[ErrorCode(code)]
    except (ValueError, KeyError):
        return UnknownServerError(f"error {code}: {message}", leader=leader, limit=limit)
    return cls(message, leader=leader, limit=limit)
