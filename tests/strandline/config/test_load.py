"""A setting is an argument, a variable or in a file, strongest first; only a service reads the last two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strandline.config.client import ClientSettings
from strandline.config.explain.usage import usage
from strandline.config.load import build
from strandline.config.producer import ProducerSettings
from strandline.config.services.broker import BrokerSettings
from strandline.config.services.controller import ControllerSettings
from strandline.errors import SettingsError


def written(tmp_path: Path, text: str) -> str:
    """A settings file, as the environment names it."""
    path = tmp_path / "settings.toml"
    path.write_text(text)
    return str(path)


def test_an_argument_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "broker_id = 1\ndata_dir = 'file'\nport = 1\nrack = 'file'")
    environment = {"STRANDLINE_CONFIG": path, "STRANDLINE_BROKER_ID": "2", "STRANDLINE_RACK": "environment"}
    settings = build(BrokerSettings, {"broker_id": 3, "port": None}, environment)
    assert (settings.broker_id, settings.rack, settings.port) == (3, "environment", 1)
    assert settings.data_dir == Path("file")


def test_a_variable_may_be_written_in_letters_of_any_case() -> None:
    assert build(ControllerSettings, {}, {"strandline_controller_id": "7"}).controller_id == 7


def test_names_of_other_processes_are_ignored(tmp_path: Path) -> None:
    path = written(tmp_path, "controller_id = 4\ndata_dir = 'of a broker'")
    environment = {"STRANDLINE_CONFIG": path, "STRANDLINE_BOOTSTRAP": "127.0.0.1:9092", "PORT": "80"}
    assert build(ControllerSettings, {}, environment) == ControllerSettings(controller_id=4)


def test_a_client_reads_neither_environment_nor_file(tmp_path: Path) -> None:
    environment = {
        "STRANDLINE_CONFIG": written(tmp_path, "request_timeout_ms = 1"),
        "STRANDLINE_RETRY_BACKOFF_MS": "1",
    }
    assert build(ClientSettings, {}, environment) == ClientSettings()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, r"setting broker_id: required \(set STRANDLINE_BROKER_ID\)"),
        ({"BROKER_ID": "-1"}, r"setting broker_id = '-1': .* \(set STRANDLINE_BROKER_ID\)"),
        (
            {"BROKER_ID": "1", "OFFSETS_TOPIC_PARTITIONS": ""},
            "setting offsets_topic_partitions = '': give a whole number, 1 to 1000",
        ),
        (
            {"BROKER_ID": "1", "TEST_PUSH_WINDOW": "65"},
            r"push_window = '65': give a whole number, 1 to 64 \(set STRANDLINE_TEST_PUSH_WINDOW\)",
        ),
        (
            {"BROKER_ID": "1", "DATA_DIR": "d", "KAFKA_EXTERNAL_PORT": "29092"},
            r"setting kafka_external_port = '29092': .*needs kafka_port too",
        ),
        (
            {"BROKER_ID": "1", "LOG_LEVEL": "loud"},
            "setting log_level = 'loud': give debug or info or warning",
        ),
        (  # clients give up an answer after their request_timeout_ms, 10,000
            {"BROKER_ID": "1", "QUOTA_DELAY_MS_MAX": "8001"},
            "setting quota_delay_ms_max = '8001': give a whole number, 1 to 8000",
        ),
        (
            {"BROKER_ID": "1", "REPLICATION_ADVERTISED_PORT": "9193"},
            "setting replication_advertised_port = '9193': needs replication_port too",
        ),
        (
            {"BROKER_ID": "1", "KAFKA_ADVERTISED_PORT": "9192"},
            "setting kafka_advertised_port = '9192': needs kafka_port too",
        ),
        (
            {"BROKER_ID": "1", "KAFKA_ADVERTISED_HOST": "k1"},
            "setting kafka_advertised_host = 'k1': needs kafka_port too",
        ),
        ({"BROKER_ID": "1", "AUTHORIZER": "acl"}, r"setting super_users = '': .*authorizer = acl needs one"),
        (
            {"BROKER_ID": "1", "SUPER_USERS": "User:a;b"},
            r"setting super_users = .*'b' is not of",
        ),
        ({"BROKER_ID": "1", "AUTHORIZER": "acl", "SUPER_USERS": " ; "}, "super_users = .*needs one"),
        (
            {"BROKER_ID": "1", "AUTHORIZER": "acl", "SUPER_USERS": "User:root;User:*"},
            r"super_users = .*User:\* is everyone only in ACLs",
        ),
        ({"BROKER_ID": "1", "BROKER_PRINCIPALS": "User:b"}, r"setting broker_principals = .*has no \{id\}"),
    ],
)
def test_an_invalid_setting_is_named_with_its_variable(environment: dict[str, str], message: str) -> None:
    variables = {f"STRANDLINE_{name}": value for name, value in environment.items()}
    with pytest.raises(SettingsError, match=message):
        build(BrokerSettings, {"data_dir": Path("d")}, variables)


def test_a_constant_is_read_from_arguments_and_from_variables_for_tests_alone(tmp_path: Path) -> None:
    """A process that a test starts has no other way."""
    given = {"data_dir": Path("d"), "broker_id": 1}
    ignored = {
        "STRANDLINE_CONFIG": written(tmp_path, "push_window = 9\ntest_push_window = 9"),
        "STRANDLINE_PUSH_WINDOW": "9",
    }
    assert build(BrokerSettings, given, ignored).push_window == 2
    assert build(BrokerSettings, given, {**ignored, "STRANDLINE_TEST_PUSH_WINDOW": "3"}).push_window == 3
    assert build(BrokerSettings, {**given, "push_window": 4}, {}).push_window == 4


def test_an_empty_host_is_not_set() -> None:
    variables = {"STRANDLINE_BROKER_ID": "1", "STRANDLINE_KAFKA_ADVERTISED_HOST": ""}
    assert not build(BrokerSettings, {"data_dir": Path("d")}, variables).kafka_advertised_host


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nosuch": 1}, "setting nosuch: there is no such setting"),
        (
            {"delivery_timout_ms": 1},
            "setting delivery_timout_ms: there is no such setting, is it delivery_timeout_ms?",
        ),
        ({"acks": "all"}, "setting acks = 'all': give -1, which stands for all in-sync replicas"),
        ({"acks": 5}, "setting acks = 5: give a whole number, -1 to 1"),
        ({"linger_ms": "soon"}, "setting linger_ms = 'soon': give a number, at least 0"),
        ({"linger_ms": float("inf")}, f"setting linger_ms = inf: give at most {2**63 - 1}"),
        ({"linger_ms": float("nan")}, "setting linger_ms = nan: give a number, at least 0"),
        ({"request_timeout_ms": 2**63}, f"setting request_timeout_ms = {2**63}: give at most {2**63 - 1}"),
        ({"enable_idempotence": "maybe"}, "setting enable_idempotence = 'maybe': give true or false"),
        ({"compression": "zip"}, "setting compression = 'zip': give none or gzip or snappy or lz4 or zstd"),
        ({"client_id": 7}, "setting client_id = 7: give text, 0 to 249 characters"),
        ({"ssl_cafile": 7}, "setting ssl_cafile = 7: give a path"),
        ({"sasl_password": 7}, "setting sasl_password: give text"),
        (
            {"gapless": True, "acks": 1},
            "setting gapless = True: needs acks=-1 (--acks all) and enable_idempotence",
        ),
    ],
)
def test_an_argument_that_is_refused_is_named_with_what_to_give(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        build(ProducerSettings, given, {})
    assert refused.value.message == message


def test_a_program_without_arguments_says_where_its_settings_come_from() -> None:
    text = usage("strandline.broker", BrokerSettings, ["--help"])
    assert text is not None
    assert "STRANDLINE_BROKER_ID and STRANDLINE_DATA_DIR" in text
    assert usage("strandline.broker", BrokerSettings, []) is None
    with pytest.raises(SettingsError, match=r"'--port': python -m strandline\.broker takes no arguments"):
        usage("strandline.broker", BrokerSettings, ["--port", "9092"])


def test_a_malformed_file_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "controller_id = 1\nport 2")
    with pytest.raises(SettingsError, match=f"settings file '{path}': .*line 2"):
        build(ControllerSettings, {}, {"STRANDLINE_CONFIG": path})


@pytest.mark.parametrize("given", [{}, {"controller_id": 1}])
def test_a_missing_file_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    """Without it a process would run with settings that its operator did not choose."""
    with pytest.raises(SettingsError, match=r"settings file '.*absent.toml': .*No such file"):
        build(ControllerSettings, given, {"STRANDLINE_CONFIG": str(tmp_path / "absent.toml")})


@pytest.mark.parametrize(
    "given",
    [
        {"sasl_pasword": "hunter2"},
        {"sasl_passwrd": "hunter2"},
        {"SASL_PASSWORD": "hunter2"},
        {"sasl": {"password": "hunter2"}},
        {"secret": "hunter2"},
        {"sasl_password": ["hunter2"]},
        {"ssl_keyfile": ["-----BEGIN PRIVATE KEY-----\nhunter2"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("cls", [ClientSettings, ProducerSettings])
def test_no_error_shows_what_may_be_a_secret(cls: type[ClientSettings], given: dict[str, Any]) -> None:
    """A12: also under a misspelt name, it goes to logs and to screens."""
    with pytest.raises(SettingsError) as refused:
        build(cls, given, {})
    assert "hunter2" not in refused.value.message
    assert next(iter(given)) in refused.value.message


@pytest.mark.parametrize("given", ["alice:hunter2@zk:2181", "zk:2181,zk://alice:hunter2@zk-2:2181/tides"])
def test_zookeeper_has_no_password_in_its_address(given: str) -> None:
    """It was written to the log, once a second, while nothing answered there."""
    variables = {"STRANDLINE_BROKER_ID": "1", "STRANDLINE_DATA_DIR": "d", "STRANDLINE_ZOOKEEPER": given}
    with pytest.raises(SettingsError, match=r"…@zk.*zookeeper_auth_file") as refused:
        build(BrokerSettings, {}, variables)
    assert "hunter2" not in refused.value.message


def test_an_address_is_shown_without_its_password() -> None:
    variables = {
        "STRANDLINE_BROKER_ID": "1",
        "STRANDLINE_DATA_DIR": "d",
        "STRANDLINE_SASL_OAUTHBEARER_JWKS_URL": "https://alice:hunter2@issuer.example/keys",
    }
    with pytest.raises(
        SettingsError, match=r"'https://…@issuer\.example/keys': the address is written"
    ) as refused:
        build(BrokerSettings, {}, variables)
    assert "hunter2" not in refused.value.message
