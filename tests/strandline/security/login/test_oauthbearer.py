"""Messages of OAUTHBEARER, and whose login they are."""

from __future__ import annotations

import pytest

from strandline.errors import AuthenticationFailed
from strandline.security.login.oauthbearer import OauthLogin
from strandline.security.login.steps import Step, session_ms
from strandline.security.login.tokens import TokenUser
from strandline.security.principal import Principal
from tests.issuer import bearer

ENDS_AT = 2_000.0


class OneToken:
    """Its bearer is a user, whose name may be any."""

    def __init__(self, name: str) -> None:
        self._name = name

    def prepare(self) -> None:
        """There is nothing to read."""

    def user_of(self, token: str) -> TokenUser:
        assert token == "a.b-c_d=.e"
        return TokenUser(self._name, ENDS_AT)


def login(name: str = "alice") -> OauthLogin:
    return OauthLogin(OneToken(name), lambda principal, _: principal == Principal("broker-1"))


TOKEN = "a.b-c_d=.e"


@pytest.mark.parametrize(
    "message",
    [
        bearer(TOKEN),
        bearer(TOKEN, "n,a=alice,"),
        f"n,,\x01host=x\x01auth=bearer  {TOKEN}\x01traceId=1,2\x01\x01".encode(),
    ],
)
def test_a_bearer_is_the_user_of_its_token(message: bytes) -> None:
    """A16"""
    assert login().step(message) == Step(b"", Principal("alice"), ENDS_AT)


def test_a_name_may_have_what_separates_names() -> None:
    """A16"""
    assert login("a,b=c").step(bearer(TOKEN, "n,a=a=2Cb=3Dc,")).principal == Principal("a,b=c")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"\xff",
        TOKEN.encode(),
        bearer(TOKEN, "y,,"),
        bearer(TOKEN, "n,a=bob,"),
        bearer(TOKEN)[:-1],
        bearer(TOKEN) + b"x",
        bearer(""),
        bearer(TOKEN + " x"),
        b"n,,\x01\x01",
        b"n,,\x01host=x\x01\x01",
        f"n,,\x01auth=Basic {TOKEN}\x01\x01".encode(),
        f"n,,\x01auth=Bearer {TOKEN}\x01auth=Bearer {TOKEN}\x01\x01".encode(),
    ],
)
def test_the_message_has_one_form(message: bytes) -> None:
    """A16: and one refusal."""
    with pytest.raises(AuthenticationFailed, match=r"^the token is not accepted"):
        login().step(message)


def test_no_token_makes_a_caller_a_member_of_the_cluster() -> None:
    """A3: members have certificates."""
    with pytest.raises(AuthenticationFailed) as error:
        login("broker-1").step(bearer(TOKEN))
    assert "member" in str(error.value.__cause__)
    assert "member" not in error.value.message


@pytest.mark.parametrize(
    ("lifetime_ms", "now_ms", "left_ms"),
    [(0, 1_999_000, 1_000), (500, 1_999_000, 500), (5_000, 1_999_000, 1_000), (0, 2_000_000, 1)],
)
def test_a_session_ends_with_its_token(lifetime_ms: int, now_ms: int, left_ms: int) -> None:
    """A11: 0 would be a session without an end."""
    assert session_ms(Step(b"", Principal("alice"), ENDS_AT), lifetime_ms, now_ms) == left_ms
    assert session_ms(Step(b"", Principal("alice")), lifetime_ms, now_ms) == lifetime_ms
