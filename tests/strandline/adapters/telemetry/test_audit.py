"""The file of the audit log, and the metrics beside it (A15)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.telemetry.audit import DENIED, FAILURES, LOST, Audit
from strandline.adapters.tls.subject import CertificatePrincipals
from strandline.errors import OutcomeUnknown, SettingsError, UnsupportedSaslMechanism
from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.acls import AclBinding, PatternType, Permission, ResourcePattern
from strandline.security.audit.entry import source_of
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.decide import Acls
from strandline.security.login.mechanisms import OAUTHBEARER
from strandline.security.login.steps import LoginRefused, Why
from strandline.security.login.tokens import InvalidToken
from strandline.security.principal import Principal
from strandline.security.rights import DESCRIBE_TOPIC, READ_TOPIC, WRITE_TOPIC
from strandline.serving.refusals import refusals_noted

ALICE = Caller(
    "kafka:192.0.2.1:9", "192.0.2.1", principal=Principal("alice"), mechanism="SSL", call="Kafka Fetch"
)
GRANTED = AclBinding(
    ResourcePattern(READ_TOPIC.of, "tides", PatternType.LITERAL),
    ALICE.principal,
    "*",
    READ_TOPIC.operation,
    Permission.ALLOW,
)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@contextmanager
def audited(path: str) -> Iterator[tuple[Audit, Access]]:
    audit = Audit(path, SystemClock())
    authorizer = Authorizer(Rules(super_users=frozenset({Principal("root")})), audit.decided)
    authorizer.take(Acls(1, [GRANTED]))
    audit.explained_by(authorizer)
    try:
        yield audit, Access(authorizer, on_denied=audit.denied, on_changed=audit.changed_here)
    finally:
        audit.close()


def values(audit: Audit) -> dict[tuple[str, ...], Any]:
    return {(sample.metric.name, *sample.labels): sample.value for sample in audit.read()}


def test_a_denial_says_who_what_and_why(tmp_path: Path) -> None:
    """A15"""
    path = tmp_path / "audit"
    with audited(str(path)) as (audit, access):
        assert access.refusal(ALICE, WRITE_TOPIC, "tides") is not None
        assert access.refusal(ALICE, WRITE_TOPIC, "tides") is not None
        assert values(audit)[DENIED.name, "WRITE", "TOPIC"] == 2
    first, again = lines(path)
    assert first.pop("timestamp").endswith("Z")
    assert first == {
        "logger": "strandline.audit",
        "event": "access",
        "allowed": False,
        "principal": "User:alice",
        "mechanism": "SSL",
        "address": "192.0.2.1",
        "connection": "kafka:192.0.2.1:9",
        "listener": "internal",
        "call": "Kafka Fetch",
        "operation": "WRITE",
        "resource_type": "TOPIC",
        "resource": "tides",
        "by": "default",
    }
    assert again["count"] == 1


def test_the_first_use_of_a_topics_records_names_the_acl(tmp_path: Path) -> None:
    """A15: whether a topic may be seen is no use of it."""
    path = tmp_path / "audit"
    with audited(str(path)) as (_, access):
        for _ in range(3):
            assert access.allowed(ALICE, DESCRIBE_TOPIC, "tides")
            assert access.allowed(ALICE, READ_TOPIC, "tides")
        access.authorizer.take(Acls(2, [GRANTED]))
        assert access.allowed(ALICE, READ_TOPIC, "tides")
        root = Caller("ipv4:192.0.2.2:1", "192.0.2.2", principal=Principal("root"))
        assert access.allowed(root, READ_TOPIC, "tides")
    of_alice, of_root = lines(path)
    assert (of_alice["operation"], of_alice["by"], of_alice["allowed"]) == ("READ", str(GRANTED), True)
    assert of_root["by"] == "super"


def test_what_only_asks_is_no_denial(tmp_path: Path) -> None:
    """A15: a topic that is left out of a list was not refused."""
    path = tmp_path / "audit"
    with audited(str(path)) as (audit, access):
        assert not access.allowed(ALICE, WRITE_TOPIC, "tides")
        assert values(audit) == {(LOST.name,): 0}
    assert lines(path) == []


def test_a_refused_login_has_the_reason_that_the_client_is_not_told(tmp_path: Path) -> None:
    """A15, A10"""
    path = tmp_path / "audit"
    with audited(str(path)) as (audit, _):
        stranger = Caller("kafka:192.0.2.3:1", "192.0.2.3")
        audit.login_refused(stranger, "PLAIN", LoginRefused("refused", Why.WRONG_PASSWORD, "bob" * 999))
        audit.login_refused(stranger, "other", UnsupportedSaslMechanism("no such mechanism"))
        audit.logged_in(ALICE)
        assert values(audit)[FAILURES.name, "PLAIN", "wrong password"] == 1
        assert values(audit)[FAILURES.name, "other", "mechanism not enabled"] == 1
    refused, other, in_ = lines(path)
    assert (refused["event"], refused["allowed"], refused["reason"]) == ("login", False, "wrong password")
    assert refused["user"].startswith("bobbob") and len(refused["user"]) < 310 and "principal" not in refused
    assert other["reason"] == "mechanism not enabled"
    assert (in_["event"], in_["allowed"], in_["principal"]) == ("login", True, "User:alice")


def test_a_change_has_short_arguments_and_the_acl_that_allows_it(tmp_path: Path) -> None:
    """A15: what a caller sends is as long as a request may be."""
    path = tmp_path / "audit"
    with audited(str(path)) as (audit, access):
        access.changed(ALICE, READ_TOPIC, "tides", text="x" * 5_000, names=list(range(5_000)), of={"a": None})
        error = OutcomeUnknown("no answer")
        audit.changed(source_of(ALICE), WRITE_TOPIC, "tides", {}, error)
    (change, unsure) = lines(path)
    assert (change["event"], change["by"], change["call"]) == ("change", str(GRANTED), "Kafka Fetch")
    assert len(change["arguments"]["text"]) < 310 and change["arguments"]["of"] == {"a": None}
    assert change["arguments"]["names"] == [*range(100), "…"]
    assert unsure["error"] == error.code.name and "arguments" not in unsure


def test_a_refused_token_has_what_is_wrong_with_it(tmp_path: Path) -> None:
    """A15, A16: and nothing of the token itself."""
    path = tmp_path / "audit"
    with audited(str(path)) as (audit, _):
        for seconds in (3, 4):
            error = LoginRefused("refused", Why.TOKEN)
            error.__cause__ = InvalidToken(f"it expired {seconds} s ago")
            audit.login_refused(Caller("kafka:192.0.2.3:1", "192.0.2.3"), OAUTHBEARER, error)
    (first, again) = lines(path)
    assert (first["reason"], first["detail"]) == (Why.TOKEN.value, "it expired 3 s ago")
    assert again["count"] == 1  # what is wrong does not make it another kind


def test_a_connection_with_a_certificate_logs_in_once(tmp_path: Path) -> None:
    """A15: a login by a password is noted where it is carried out."""
    path = tmp_path / "audit"
    with audited(str(path)) as (audit, _):
        for _ in range(3):
            audit.met(ALICE)
        audit.met(Caller("ipv4:192.0.2.3:1", "192.0.2.3"))
        audit.met(replace(ALICE, connection="ipv4:192.0.2.4:1", mechanism="SCRAM-SHA-512"))
    assert [line["principal"] for line in lines(path)] == ["User:alice"]


@pytest.mark.parametrize("port", ["ipv4", "framed"])
def test_a_certificate_without_a_principal_is_a_refused_login(tmp_path: Path, port: str) -> None:
    """A15"""
    path = tmp_path / "audit"
    others: list[object] = []
    with audited(str(path)) as (audit, _), pytest.raises(LoginRefused) as refused:
        CertificatePrincipals("DEFAULT").of(b"no certificate")
    with audited(str(path)) as (audit, _):
        refusals_noted(lambda error, _: others.append(error), audit)(refused.value, f"{port}:192.0.2.3:1")
    (line,) = lines(path)
    assert (line["reason"], line["address"], line["mechanism"]) == ("certificate", "192.0.2.3", "SSL")
    assert others == [refused.value]


def test_the_file_is_for_its_owner_and_is_made_again_when_it_is_moved(tmp_path: Path) -> None:
    """A15: as logrotate moves it."""
    path = tmp_path / "audit"
    path.write_text("")
    path.chmod(0o644)
    with audited(str(path)) as (audit, _):
        audit.logged_in(ALICE)
        assert path.stat().st_mode & 0o777 == 0o600
        path.rename(tmp_path / "audit.1")
        audit.login_refused(ALICE, "SSL", LoginRefused("refused", Why.CERTIFICATE))
        assert path.stat().st_mode & 0o777 == 0o600
    assert [len(lines(each)) for each in (tmp_path / "audit.1", path)] == [1, 1]


def test_lines_that_cannot_be_written_are_counted(tmp_path: Path) -> None:
    """A15: the service goes on."""
    with audited("/dev/full") as (audit, access):
        assert access.refusal(ALICE, WRITE_TOPIC, "tides") is not None
        assert access.refusal(ALICE, WRITE_TOPIC, "other") is not None
        assert values(audit)[LOST.name,] == 2


@pytest.mark.parametrize("path", ["missing/audit", "link"])
def test_a_file_that_cannot_be_opened_ends_the_start(tmp_path: Path, path: str) -> None:
    """A15: nor is a link followed, which another user may have made."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="audit_log"):
        Audit(str(tmp_path / path), SystemClock())


def test_without_a_log_the_metrics_remain(capsys: pytest.CaptureFixture[str]) -> None:
    with audited("") as (audit, access):
        assert access.refusal(ALICE, WRITE_TOPIC, "tides") is not None
        assert values(audit) == {(DENIED.name, "WRITE", "TOPIC"): 1}
    with audited("-") as (audit, access):
        audit.logged_in(ALICE)
    assert json.loads(capsys.readouterr().err)["event"] == "login"
