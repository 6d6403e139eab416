"""Begins logins: which mechanisms there are, and which users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from strandline.errors import BrokerNotAvailable, InvalidRequest, UnsupportedSaslMechanism
from strandline.security.login.credentials import Credential, Credentials, prepared, stand_in
from strandline.security.login.mechanisms import HASHES, OAUTHBEARER, PLAIN, check_user_name
from strandline.security.login.oauthbearer import OauthLogin, Tokens
from strandline.security.login.plain import PlainLogin
from strandline.security.login.scram import ScramLogin, prepare
from strandline.security.login.steps import Login
from strandline.security.principal import Principal


class Authenticator:
    """The users of one process, as it knows them now."""

    def __init__(
        self,
        mechanisms: Sequence[str],
        secret: Callable[[], bytes],
        withholds: Callable[[Principal, str], bool],
        tokens: Tokens | None,
    ) -> None:
        """`secret`: the same at all members of the cluster, so that a user who does not exist looks the same
        everywhere. `withholds`: whether a login by this mechanism never gives the principal; then the user
        is refused as one that does not exist. `tokens`: None without OAUTHBEARER."""
        self.mechanisms = tuple(mechanisms)
        self._secret = secret
        self._withholds = withholds
        self._tokens = tokens
        self._users: Mapping[str, Credentials] | None = None

    @property
    def users(self) -> Mapping[str, Credentials]:
        """Empty before they are known."""
        return {} if self._users is None else self._users

    @property
    def knows_users(self) -> bool:
        """False before `take`."""
        return self._users is not None

    def take(self, users: Mapping[str, Credentials]) -> None:
        """Know these users from now on."""
        self._users = users

    def prepare(self) -> None:
        """Have what the first login needs: some work, and reading. Raises SettingsError."""
        if any(mechanism in HASHES for mechanism in self.mechanisms):
            prepare()
        if self._tokens is not None:
            self._tokens.prepare()

    def begin(self, mechanism: str, nonce: str) -> Login:
        """`nonce`: random, printable, without commas. Raises UnsupportedSaslMechanism, and BrokerNotAvailable
        before the users are known."""
        if mechanism not in self.mechanisms:
            enabled = ", ".join(self.mechanisms) or "none"
            raise UnsupportedSaslMechanism(f"mechanism {mechanism[:50]!r} is not enabled here; {enabled} are")
        if mechanism == OAUTHBEARER:
            assert self._tokens is not None
            return OauthLogin(self._tokens, self._withholds)
        if self._users is None:
            raise BrokerNotAvailable("the users are not known here yet; ask again soon")
        if mechanism == PLAIN:
            return PlainLogin(self._find_all)
        return ScramLogin(mechanism, lambda name: self._find(mechanism, name), nonce)

    def _find(self, mechanism: str, name: str) -> tuple[Principal | None, Credential]:
        """Does the same work for a user who does not exist, and for a name that no user may have."""
        try:
            name = prepared(name, "name")
            check_user_name(name)
        except InvalidRequest:
            return None, stand_in(self._secret(), mechanism, name)
        other = stand_in(self._secret(), mechanism, name)
        credential = self.users.get(name, {}).get(mechanism)
        principal = Principal(name)
        if credential is None or self._withholds(principal, mechanism):
            return None, other
        return principal, credential

    def _find_all(self, name: str) -> list[tuple[Principal | None, Credential]]:
        return [self._find(mechanism, name) for mechanism in HASHES]
