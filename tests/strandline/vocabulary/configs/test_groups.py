"""The configs of groups: what may be set, and what holds."""

from __future__ import annotations

import pytest

from strandline.config.load import load
from strandline.config.services.broker import BrokerSettings
from strandline.errors import InvalidConfig, InvalidRequest, SettingsError
from strandline.vocabulary.configs.groups import (
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    Bounds,
    GroupBounds,
    KnownGroupConfigs,
    Times,
    altered,
    check_name,
    check_stored,
)

BOUNDS = GroupBounds(Bounds(45_000, 10_000, 60_000), Bounds(5_000, 1_000, 15_000))


def set_(name: str, value: str) -> dict[str, str]:
    return altered({}, {name: value}, (), BOUNDS, replace=False)


def test_what_is_set_replaces_the_brokers_settings() -> None:
    config = set_(SESSION_TIMEOUT, " 50000 ")
    assert config == {SESSION_TIMEOUT: "50000"}
    assert BOUNDS.times(config) == Times(50_000, 5_000)
    both = altered(config, {HEARTBEAT_INTERVAL: "2000"}, (), BOUNDS, replace=False)
    assert BOUNDS.times(both) == Times(50_000, 2_000)
    assert altered(both, {}, [SESSION_TIMEOUT, "unknown"], BOUNDS, replace=False) == {
        HEARTBEAT_INTERVAL: "2000"
    }
    assert altered(both, {}, (), BOUNDS, replace=True) == {}
    assert BOUNDS.times({}) == Times(45_000, 5_000)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (SESSION_TIMEOUT, "9999", "between 10000 and 60000"),
        (SESSION_TIMEOUT, "60001", "between"),
        (SESSION_TIMEOUT, "", "whole number"),
        (SESSION_TIMEOUT, "1e4", "whole number"),
        (SESSION_TIMEOUT, "4294967296", "whole number"),
        (SESSION_TIMEOUT, "٣", "whole number"),
        (HEARTBEAT_INTERVAL, "-1", "between"),
        ("consumer.assignment.interval.ms", "500", "give 0"),
        ("consumer.assignor.offload.enable", "maybe", "true or false"),
        ("share.session.timeout.ms", "50000", "no share groups"),
        ("streams.session.timeout.ms", "50000", "classic protocol"),
        ("unknown.config", "1", "known are"),
        ("x" * 10_000, "1", "unknown"),
    ],
)
def test_what_kafka_refuses_or_what_nothing_here_does_is_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidConfig, match=said) as refused:
        set_(name, value)
    assert len(refused.value.message) < 400


@pytest.mark.parametrize(
    ("name", "value"),
    [("consumer.assignment.interval.ms", "0"), ("consumer.assignor.offload.enable", "TRUE")],
)
def test_what_is_true_here_anyway_is_taken_and_not_kept(name: str, value: str) -> None:
    assert set_(name, value) == {}


def test_a_session_is_longer_than_the_interval_also_with_the_brokers_setting() -> None:
    bounds = GroupBounds(Bounds(45_000, 1_000, 60_000), Bounds(5_000, 1_000, 15_000))
    with pytest.raises(InvalidConfig, match="more than"):
        altered({}, {SESSION_TIMEOUT: "5000"}, (), bounds, replace=False)
    both = {SESSION_TIMEOUT: "2000", HEARTBEAT_INTERVAL: "1000"}
    assert altered({}, both, (), bounds, replace=False) == both
    with pytest.raises(InvalidConfig, match="more than"):
        altered(both, {}, [HEARTBEAT_INTERVAL], bounds, replace=False)


def test_values_from_before_the_bounds_changed_are_brought_within_them() -> None:
    assert BOUNDS.times({SESSION_TIMEOUT: "500", HEARTBEAT_INTERVAL: "99999"}) == Times(10_000, 15_000)


def test_bounds_have_room() -> None:
    with pytest.raises(SettingsError, match="group_consumer_session_timeout_ms_min = 60001"):
        load(BrokerSettings, broker_id=1, data_dir="x", group_consumer_session_timeout_ms_min=60_001)


@pytest.mark.parametrize("name", ["", "x" * 300])
def test_a_group_has_a_name(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_name(name)


def test_what_is_stored_is_no_garbage() -> None:
    assert check_stored({"of.a.newer.version": "x", SESSION_TIMEOUT: "1"})
    for value in ("", "-1", "1" * 11, "x"):
        with pytest.raises(ValueError, match="whole number"):
            check_stored({SESSION_TIMEOUT: value})


def test_a_broker_knows_what_it_read_last() -> None:
    known = KnownGroupConfigs()
    known.take({"g": {SESSION_TIMEOUT: "50000"}})
    assert (known.of("g"), known.of("h")) == ({SESSION_TIMEOUT: "50000"}, {})
