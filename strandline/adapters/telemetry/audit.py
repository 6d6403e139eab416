"""The audit log of a process: who logged in, what was denied and what was changed, as JSON lines.

What is written, and what is only counted, `strandline.security.audit` decides. A line that cannot be written
is lost and counted; the service goes on.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from typing import Any, Final, TextIO

import structlog

from strandline.adapters.telemetry.metrics import Sample, counter
from strandline.config.security import SSL
from strandline.errors import (
    IllegalSaslState,
    InvalidRequest,
    SettingsError,
    StrandlineError,
    ThrottlingQuotaExceeded,
    UnsupportedSaslMechanism,
)
from strandline.ports import Caller, Clock
from strandline.security.acls import CLUSTER_NAME, ResourceType
from strandline.security.asker import Asker
from strandline.security.audit.counting import WINDOW_S, Counting
from strandline.security.audit.entry import (
    Entry,
    Event,
    Source,
    access_entry,
    bounded,
    cut,
    fields,
    ground,
    source_of,
)
from strandline.security.authorizer import Authorizer
from strandline.security.decide import Decision, Ground
from strandline.security.login.steps import LoginRefused, Why
from strandline.security.principal import Principal
from strandline.security.rights import READ_TOPIC, WRITE_TOPIC, Right

logger = structlog.get_logger(__name__)

NAME: Final = "strandline.audit"
STANDARD_ERROR: Final = "-"
CONNECTIONS_KNOWN_MAX: Final = 10_000
"""Connections with certificates that are known to have begun."""
LOST_LOGGED_EVERY_S: Final = 60.0

DENIED: Final = counter(
    "strandline_authorization_denied_total",
    "Refusals for want of a right: with an authorizer, an entry of a request that its caller may not make.",
    "operation",
    "resource_type",
)
FAILURES: Final = counter(
    "strandline_authentication_failures_total",
    "Logins that were refused, and certificates that give no principal.",
    "mechanism",
    "reason",
)
LOST: Final = counter(
    "strandline_audit_lines_lost_total",
    "Lines of the audit log that could not be written. Only with `audit_log`.",
)
AUDIT_METRICS: Final = (DENIED, FAILURES, LOST)

_STAMP: Final = structlog.processors.TimeStamper(fmt="iso", utc=True)
"""As log lines have it."""
_USES: Final = (READ_TOPIC, WRITE_TOPIC)
"""The rights whose first use is written: those to a topic's records."""
_WHY: Final[Mapping[type[StrandlineError], Why]] = {
    UnsupportedSaslMechanism: Why.NO_MECHANISM,
    IllegalSaslState: Why.OUT_OF_ORDER,
    ThrottlingQuotaExceeded: Why.TOO_MANY,
}


class Audit:
    """The audit log, and what is counted beside it. All methods run on the event loop."""

    def __init__(self, path: str, clock: Clock) -> None:
        """`path` as the setting `audit_log`. Raises SettingsError if the file cannot be opened."""
        self._clock = clock
        self._handler = _handler(path)
        self._authorizer: Authorizer | None = None
        self._counting = Counting()
        self._connections: OrderedDict[str, None] = OrderedDict()
        self._denied: Counter[Right] = Counter()
        self._failures: Counter[tuple[str, str]] = Counter()
        self._lost = 0
        self._lost_logged_at = -LOST_LOGGED_EVERY_S

    @property
    def is_written(self) -> bool:
        """False: only the metrics are kept."""
        return self._handler is not None

    def explained_by(self, authorizer: Authorizer) -> None:
        """Take from this authorizer which ACL decides."""
        self._authorizer = authorizer

    # --- what happens ------------------------------------------------------------------------

    def met(self, caller: Caller) -> None:
        """Note the first call of a connection with a certificate: it is that connection's login."""
        if not self.is_written or caller.mechanism != SSL or caller.connection in self._connections:
            return
        self._connections[caller.connection] = None
        while len(self._connections) > CONNECTIONS_KNOWN_MAX:
            self._connections.popitem(last=False)
        self.logged_in(caller)

    def logged_in(self, caller: Caller) -> None:
        """Note that the caller has proved its name."""
        if self.is_written:
            self._note(Entry(Event.LOGIN, True, source_of(caller)))

    def login_refused(self, caller: Caller, mechanism: str, error: StrandlineError) -> None:
        """Note why a caller could not prove its name. `mechanism` is one of a bounded number of names."""
        user, why, detail = "", _WHY.get(type(error), Why.MALFORMED), ""
        if isinstance(error, LoginRefused):
            user, why = cut(error.user), error.why
            detail = "" if error.__cause__ is None else cut(str(error.__cause__))
        self._failures[mechanism, why.value] += 1
        if self.is_written:
            principal = str(caller.principal) if caller.mechanism else ""
            source = replace(source_of(caller), principal=principal, mechanism=mechanism)
            self._note(Entry(Event.LOGIN, False, source, reason=why.value, detail=detail, user=user))

    def denied(self, caller: Asker, right: Right, name: str) -> None:
        """Note that a caller does not have a right. See `strandline.security.access.OnDenied`."""
        self._denied[right] += 1
        if self.is_written:
            decision = self._decision(caller, right, name)
            if decision.allowed:  # a member, but another one than it says
                decision = Decision(False, Ground.NO_ACL)
            self._note(access_entry(source_of(caller), right, name, decision))

    def decided(self, caller: Asker, right: Right, name: str, decision: Decision) -> None:
        """Note the first use of a topic's records. See `strandline.security.authorizer.OnDecided`."""
        if right in _USES and decision.allowed and decision.why is not Ground.MEMBER and self.is_written:
            self._note(access_entry(source_of(caller), right, name, decision))

    def changed(
        self,
        source: Source,
        right: Right,
        name: str,
        arguments: Mapping[str, Any],
        error: StrandlineError | None = None,
    ) -> None:
        """Note a change that was made for a caller; with an error, one that may have been made."""
        if not self.is_written:
            return
        entry = Entry(
            Event.CHANGE,
            True,
            source,
            right.operation.name,
            right.of.name,
            cut(name),
            by=self._allowed_by(source, right, name),
            arguments=bounded(arguments),
            error="" if error is None else error.code.name,
        )
        self._note(entry)

    def changed_here(
        self,
        caller: Asker,
        right: Right,
        name: str,
        arguments: Mapping[str, Any],
        error: StrandlineError | None,
    ) -> None:
        """As `changed`. See `strandline.security.access.OnChanged`."""
        self.changed(source_of(caller), right, name, arguments, error)

    def _allowed_by(self, source: Source, right: Right, name: str) -> str:
        """The ground on which the caller may do it: by the right itself, or by the same right to the
        cluster."""
        caller = caller_of(source)
        if caller is None:
            return ""
        decision = self._decision(caller, right, name)
        if not decision.allowed:
            decision = self._decision(caller, Right(right.operation, ResourceType.CLUSTER), CLUSTER_NAME)
        return ground(decision) if decision.allowed else "member"

    def _decision(self, caller: Asker, right: Right, name: str) -> Decision:
        if self._authorizer is None:
            return Decision(True, Ground.OFF)
        return self._authorizer.decision(caller, *right, name)

    # --- the file ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Writes the counts of each minute, until it is cancelled."""
        while self.is_written:
            await self._clock.sleep(WINDOW_S)
            self._write(self._counting.due(self._clock.monotonic()))

    def close(self) -> None:
        """Writes the last counts, and closes the file."""
        self._write(self._counting.end())
        if self._handler is not None:
            with suppress(OSError):
                self._handler.close()

    def _note(self, entry: Entry) -> None:
        self._write(self._counting.note(entry, self._clock.monotonic()))

    def _write(self, entries: Iterable[Entry]) -> None:
        if self._handler is None:
            return
        for entry in entries:
            line = _STAMP(None, "", {"logger": NAME, **fields(entry)})
            try:
                self._handler.emit(_record(json.dumps(line)))
            except OSError as error:
                self._note_lost(error)

    def _note_lost(self, error: OSError) -> None:
        self._lost += 1
        now = self._clock.monotonic()
        if now - self._lost_logged_at >= LOST_LOGGED_EVERY_S:
            self._lost_logged_at = now
            logger.error("the audit log cannot be written", reason=str(error), lost_so_far=self._lost)

    def read(self) -> Iterator[Sample]:
        for right, count in self._denied.items():
            yield DENIED.is_now(count, right.operation.name, right.of.name)
        for (mechanism, reason), count in self._failures.items():
            yield FAILURES.is_now(count, mechanism, reason)
        if self.is_written:
            yield LOST.is_now(self._lost)


def caller_of(source: Source) -> Caller | None:
    """None for a principal that cannot be read: it was cut."""
    try:
        principal = Principal.parse(source.principal)
    except InvalidRequest:
        return None
    return Caller(source.connection, source.address, principal=principal)


def _record(line: str) -> logging.LogRecord:
    return logging.LogRecord(NAME, logging.INFO, "", 0, line, None, None)


def _handler(path: str) -> logging.Handler | None:
    if not path:
        return None
    if path == STANDARD_ERROR:
        return _Stream(sys.stderr)
    try:
        return _File(path, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"setting audit_log = {path!r}: {error.strerror}") from error


class _Stream(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:
        """Raises what was raised while the record was written."""
        raise  # noqa: PLE0704


class _File(WatchedFileHandler):
    """A file that only its owner reads. It is opened again after another program has moved it away."""

    def _open(self) -> TextIOWrapper:
        file = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if stat.S_ISREG(os.fstat(file).st_mode):
            os.fchmod(file, 0o600)
        return open(file, "a", encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:
        """Raises what was raised while the record was written."""
        raise  # noqa: PLE0704
