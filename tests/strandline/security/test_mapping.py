"""From subjects of certificates to principals, by Kafka's rules."""

from __future__ import annotations

import pytest

from strandline.errors import AuthenticationFailed, InvalidRequest
from strandline.security.mapping import SUBJECT_CHARS_MAX, parse_mapping_rules, principal_of

KAFKAS_EXAMPLE = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,"
    "DEFAULT"
)
"""The rules that Kafka's documentation of ssl.principal.mapping.rules explains."""


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("OU=x,cn=Some.One,O=y", "some.one"),
        ("O=only", "O=only"),
    ],
)
def test_the_first_rule_that_matches_gives_the_name(subject: str, name: str) -> None:
    assert principal_of(subject, parse_mapping_rules(KAFKAS_EXAMPLE)).name == name


@pytest.mark.parametrize("text", ["", "DEFAULT", "  DEFAULT  "])
def test_without_rules_the_name_is_the_subject(text: str) -> None:
    assert str(principal_of("CN=alice,O=x", parse_mapping_rules(text))) == "User:CN=alice,O=x"


@pytest.mark.parametrize(
    ("rule", "subject", "name"),
    [
        ("RULE:CN=(.*)/$1/U", "CN=alice", "ALICE"),
        ("RULE:CN=(.*)/$1/ , DEFAULT", "CN=alice", "alice"),
        (r"RULE:CN=a\/(.*)/x\/$1/", "CN=a/b", "x/b"),
        (r"RULE:CN=(.*)/\$1/", "CN=alice", "$1"),
        ("RULE:CN=(.*)/$1$2/", "CN=alice", "alice$2"),
        ("RULE:CN=(a)?(.*)/$1-$2/", "CN=bob", "-bob"),
        ("RULE:CN=(.*)/$0/", "CN=alice", "CN=alice"),
        (r"RULE:CN=(.*?),O=a\\,b/$1/", r"CN=alice,O=a\,b", "alice"),
        ("RULE:CN=x/no/,RULE:CN=(.*)/$1/", "CN=alice", "alice"),
    ],
)
def test_what_a_rule_may_say(rule: str, subject: str, name: str) -> None:
    assert principal_of(subject, parse_mapping_rules(rule)).name == name


def test_a_rule_must_match_the_whole_subject() -> None:
    """A certificate for CN=alice,O=elsewhere is not alice."""
    rules = parse_mapping_rules("RULE:CN=(alice)/$1/")
    assert principal_of("CN=alice", rules).name == "alice"
    for subject in ("CN=alice,O=elsewhere", "O=elsewhere,CN=alice", "CN=alice\n"):
        with pytest.raises(AuthenticationFailed, match="no rule"):
            principal_of(subject, rules)


@pytest.mark.parametrize(
    "text",
    [
        "DEFAULT,",
        ",DEFAULT",
        "default",
        "RULE:",
        "RULE:a/b",
        "RULE:a/b/X",
        "RULE:(/b/",
        "RULE:a/b/L DEFAULT",
        "alice",
    ],
)
def test_a_wrong_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="rule"):
        parse_mapping_rules(text)


@pytest.mark.parametrize("subject", ["", "CN=a\x1b[2J", "CN=" + "a" * 2_000, "CN=" + "a" * SUBJECT_CHARS_MAX])
def test_a_subject_that_gives_no_principal_is_refused(subject: str) -> None:
    with pytest.raises(AuthenticationFailed):
        principal_of(subject)


def test_no_certificate_is_a_caller_without_a_name() -> None:
    """A name that callers without one have is refused."""
    with pytest.raises(AuthenticationFailed, match="User:ANONYMOUS, which means callers without a name"):
        principal_of("CN=ANONYMOUS", parse_mapping_rules("RULE:^CN=(.*)$/$1/"))
