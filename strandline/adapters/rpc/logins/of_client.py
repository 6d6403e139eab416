"""How a client logs in: the name and the password of its settings, or the token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import grpc

from strandline.adapters.rpc.logins.secrets import Given, Provided, Secrets
from strandline.adapters.rpc.wire_errors import error_of_call
from strandline.adapters.system.secret_file import refuse_readable_by_others
from strandline.config.login import LoginSettings
from strandline.config.security import WITH_LOGINS
from strandline.errors import (
    AuthenticationFailed,
    BrokerNotAvailable,
    IllegalSaslState,
    InvalidRequest,
    SettingsError,
    StrandlineError,
)
from strandline.ports import Clock
from strandline.security.login.conversation import Conversation, conversation
from strandline.security.login.messages import LoginAnswer

LOGIN_S_MAX: Final = 10.0
"""The longest login. A server allows less."""
LOGINS_PER_CALL_MAX: Final = 3
"""The logins that one call may take. Each of their sessions was lost with its connection."""
_RENEWED_AFTER: Final = 0.85
"""The part of its lifetime after which a session is renewed, for calls that begin then."""


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """What a client needs for each login."""

    mechanism: str
    name: str
    secrets: Secrets
    new_id: Callable[[], str]

    @classmethod
    def of(cls, settings: LoginSettings, new_id: Callable[[], str], clock: Clock) -> ClientLogin | None:
        """None: the client does not log in. Raises SettingsError for a name or a password that no login
        allows, and for a file that cannot be read."""
        if settings.security_protocol not in WITH_LOGINS:
            return None
        mechanism, password = settings.sasl_mechanism, settings.sasl_password
        assert mechanism is not None, "the settings are checked"
        if (provider := settings.sasl_oauth_token_provider) is not None:
            return cls(mechanism, "", Provided(provider, clock), new_id)

        def secret() -> str:
            for setting in ("sasl_oauth_token_file", "sasl_password_file"):
                if (file := getattr(settings, setting)) is not None:
                    return _first_line(setting, file)
            assert password is not None, "the settings are checked"
            return password.get_secret_value()

        made = cls(mechanism, settings.sasl_username or "", Given(secret), new_id)
        try:
            next(made.begin(secret()))
        except InvalidRequest as error:
            raise SettingsError(f"settings sasl_*: {error.message}") from None
        return made

    def begin(self, secret: str) -> Conversation:
        return conversation(self.mechanism, self.name, secret, self.new_id())


@dataclass(frozen=True, slots=True)
class ClientSession:
    """A login that succeeded, on one connection."""

    token: str
    renewed_at: float
    """Monotonic seconds from which on calls no longer begin with it."""

    @classmethod
    def of(cls, answer: LoginAnswer, now: float) -> ClientSession:
        """`now`: monotonic seconds before the login began."""
        after_s = answer.lifetime_ms / 1000 * _RENEWED_AFTER if answer.lifetime_ms else float("inf")
        return cls(answer.session, now + after_s)


def _first_line(setting: str, file: Path) -> str:
    """Raises SettingsError."""
    refuse_readable_by_others(f"setting {setting} =", file)
    try:
        line, *_ = file.read_text(encoding="utf-8").splitlines() or [""]
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"setting {setting} = {str(file)!r}: {error}") from error
    if not line:
        raise SettingsError(f"setting {setting} = {str(file)!r}: its first line is empty")
    return line


def is_lost_session(error: StrandlineError) -> bool:
    """Whether a call was refused because of the session that it showed: nothing was done."""
    return isinstance(error, AuthenticationFailed | IllegalSaslState)


def raise_refusal(address: str, error: grpc.aio.AioRpcError | grpc.Call) -> NoReturn:
    """Raises the error of a login that the server refused: AuthenticationFailed or another final one, or
    BrokerNotAvailable if a login may succeed later."""
    typed = error_of_call(error)
    if typed is not None and not typed.retriable:
        raise type(typed)(f"{address}: {typed.message}")
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        raise AuthenticationFailed(
            f"{address}: this port has no logins: set security_protocol = SSL or PLAINTEXT"
        )
    why = f"{error.code().name}, {error.details()}" if typed is None else typed.message
    raise BrokerNotAvailable(f"{address}: the login did not end: {why}")


def lost_too_often(address: str) -> BrokerNotAvailable:
    return BrokerNotAvailable(
        f"{address}: the sessions of {LOGINS_PER_CALL_MAX} logins were each lost at once: "
        "is a proxy between, which spreads calls over several connections?"
    )
