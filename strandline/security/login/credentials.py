"""What a cluster keeps of a user's password (RFC 5802): enough to verify a login, not enough to make one."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from unicodedata import is_normalized, normalize

from strandline.errors import InvalidRequest, ResourceNotFound
from strandline.security.login.mechanisms import HASHES, check_new_user_name, check_user_name

ITERATIONS_DEFAULT: Final = 8_192
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
"""As in Kafka: a client has to do that many at each login."""
SALT_BYTES: Final = 32
SALT_BYTES_MIN: Final = 12
SALT_BYTES_MAX: Final = 128
PASSWORD_CHARS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Credential:
    """One user's, for one mechanism. Raises InvalidRequest if no login could use it."""

    mechanism: str
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)
        check_iterations(self.iterations)
        check_salt(self.salt)
        size = hashlib.new(HASHES[self.mechanism]).digest_size
        if len(self.stored_key) != size or len(self.server_key) != size:
            raise InvalidRequest(f"the keys of a {self.mechanism} credential have {size} bytes each")

    def __repr__(self) -> str:
        """Without the keys: a password can be guessed by them."""
        return f"Credential({self.mechanism}, iterations={self.iterations})"


Credentials = Mapping[str, Credential]
"""One user's credentials by mechanism."""


EVERY_MECHANISM: Final = ""
"""In the change of a user: all that it has a credential for."""


@dataclass(frozen=True, slots=True)
class UserChange:
    """A credential of one user is set, or removed: then it is None.

    Raises InvalidRequest, also for a new name that no login gives: a login gives it normalized, as `prepared`
    does.
    """

    user: str
    mechanism: str
    credential: Credential | None = None

    def __post_init__(self) -> None:
        check_user_name(self.user)
        if self.credential is None:
            if self.mechanism != EVERY_MECHANISM:
                check_mechanism(self.mechanism)
            return
        if self.credential.mechanism != self.mechanism:
            raise InvalidRequest(f"a {self.credential.mechanism} credential is not for {self.mechanism!r}")
        check_new_user_name(self.user)
        if not is_normalized("NFKC", self.user):
            raise InvalidRequest(
                f"the user's name {self.user!a} is {normalize('NFKC', self.user)!a} at a login: set that one"
            )


def changed(credentials: Credentials, changes: Sequence[UserChange]) -> Credentials:
    """One user's credentials after these changes of it, all of them.

    Raises InvalidRequest if one credential is named twice, ResourceNotFound if one that is to be removed does
    not exist.
    """
    named = {change.mechanism for change in changes}
    if len(named) < len(changes) or (EVERY_MECHANISM in named and len(changes) > 1):
        raise InvalidRequest(f"the request names a credential of user {changes[0].user!r} twice")
    if EVERY_MECHANISM in named:
        return {}
    after = dict(credentials)
    for change in changes:
        if change.credential is not None:
            after[change.mechanism] = change.credential
        elif after.pop(change.mechanism, None) is None:
            raise ResourceNotFound(f"user {change.user!r} has no credential for {change.mechanism}")
    return after


def with_password(
    user: str, password: str, mechanisms: Iterable[str], iterations: int, new_salt: Callable[[], bytes]
) -> list[UserChange]:
    """The changes that give a user this password; each mechanism has a salt of its own. Some milliseconds of
    work for each. Raises InvalidRequest."""
    check_new_user_name(user)
    return [
        UserChange(user, mechanism, make_credential(mechanism, password, new_salt(), iterations))
        for mechanism in dict.fromkeys(mechanisms)
    ]


def check_mechanism(mechanism: str) -> None:
    if mechanism not in HASHES:
        raise InvalidRequest(f"a credential is for {' or '.join(HASHES)}, not for {mechanism!r}")


def check_iterations(iterations: int) -> None:
    """Raises InvalidRequest."""
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise InvalidRequest(
            f"a credential has {ITERATIONS_MIN} to {ITERATIONS_MAX} iterations, not {iterations}"
        )


def check_salt(salt: bytes) -> None:
    if not SALT_BYTES_MIN <= len(salt) <= SALT_BYTES_MAX:
        raise InvalidRequest(f"a salt has {SALT_BYTES_MIN} to {SALT_BYTES_MAX} bytes, not {len(salt)}")


def prepared(text: str, what: str) -> str:
    """A name or a password in the one spelling that both ends of a login use (SASLprep, RFC 4013).

    Raises InvalidRequest, which says `what` is wrong and never what it is.
    """
    from scramp.core import ScramException
    from scramp.utils import saslprep

    if not text:
        raise InvalidRequest(f"the {what} is empty")
    if len(text) > PASSWORD_CHARS_MAX:
        raise InvalidRequest(f"the {what} has more than {PASSWORD_CHARS_MAX} characters")
    try:
        return str(saslprep(text))
    except (ScramException, UnicodeError):
        raise InvalidRequest(f"the {what} has characters that a login does not allow") from None


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 of the password: some milliseconds of work. Raises InvalidRequest."""
    check_mechanism(mechanism)
    check_iterations(iterations)
    check_salt(salt)
    text = prepared(password, "password")
    return hashlib.pbkdf2_hmac(HASHES[mechanism], text.encode(), salt, iterations)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """The credential that a salted password gives. Raises InvalidRequest."""
    check_mechanism(mechanism)
    name = HASHES[mechanism]
    if len(salted) != hashlib.new(name).digest_size:
        raise InvalidRequest(f"a salted password for {mechanism} does not have {len(salted)} bytes")
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return Credential(mechanism, salt, stored_key, hmac.digest(salted, b"Server Key", name), iterations)


def make_credential(
    mechanism: str, password: str, salt: bytes, iterations: int = ITERATIONS_DEFAULT
) -> Credential:
    """Raises InvalidRequest."""
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def is_password(credential: Credential, password: str) -> bool:
    """Whether it is the password that the credential was made of: some milliseconds of work."""
    try:
        made = make_credential(credential.mechanism, password, credential.salt, credential.iterations)
    except InvalidRequest:
        return False
    return hmac.compare_digest(made.stored_key, credential.stored_key)


def stand_in(secret: bytes, mechanism: str, user: str) -> Credential:
    """For a user that does not exist: always the same, no password's, and like one that `make_credential`
    gives a user by default. A user whose credential has another shape differs from it."""

    def derived(purpose: bytes) -> bytes:
        return hmac.digest(secret, purpose + mechanism.encode() + b"\0" + user.encode(), "sha512")

    size = hashlib.new(HASHES[mechanism]).digest_size
    return Credential(
        mechanism,
        derived(b"salt")[:SALT_BYTES],
        derived(b"stored key")[:size],
        derived(b"server key")[:size],
        ITERATIONS_DEFAULT,
    )
