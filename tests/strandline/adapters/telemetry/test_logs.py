"""Logs are one line an event, JSON or for a console (DESIGN, "Running it")."""

from __future__ import annotations

import io
import json
import logging

import pytest
import structlog

from strandline.adapters.telemetry.logs import configure_logging
from strandline.config.services.zookeeper import ZooKeeperSettings

pytestmark = pytest.mark.usefixtures("logging_as_before")


def test_json_lines_have_time_level_event_and_facts() -> None:
    output = io.StringIO()
    configure_logging(ZooKeeperSettings(log_format="json", log_level="info"), stream=output)
    structlog.get_logger().info("leader elected", partition="t-0", epoch=7)
    structlog.get_logger().debug("too fine")
    logging.getLogger("some.library").warning("it says %s", "so")
    ours, theirs = (json.loads(line) for line in output.getvalue().splitlines())
    assert ours.pop("timestamp").endswith("Z")
    assert ours == {"level": "info", "event": "leader elected", "partition": "t-0", "epoch": 7}
    assert (theirs["level"], theirs["event"], theirs["logger"]) == ("warning", "it says so", "some.library")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_tracebacks_contain_no_local_variables(log_format: str) -> None:
    """They may be users' records or passwords."""
    output = io.StringIO()
    configure_logging(ZooKeeperSettings(log_format=log_format), stream=output)
    secret = "of a user"
    try:
        raise ValueError(f"{len(secret)} bytes are wrong")
    except ValueError:
        structlog.get_logger().exception("produce failed")
    assert "produce failed" in output.getvalue()
    assert "9 bytes are wrong" in output.getvalue()
    assert secret not in output.getvalue().replace('secret = "of a user"', "")


def test_repeated_warnings_of_libraries_are_left_out() -> None:
    """gRPC warns at each attempt to connect; our own events say that a peer is away."""
    output = io.StringIO()
    configure_logging(ZooKeeperSettings(), stream=output)
    logging.getLogger("grpc").warning("Connection dropped")
    logging.getLogger("grpc").error("Unhandled exception")
    assert [json.loads(line)["event"] for line in output.getvalue().splitlines()] == ["Unhandled exception"]


def test_what_any_caller_can_make_grpc_say_is_not_logged() -> None:
    """CORRECTNESS X14: headers that are no text, and callers that do not wait for their answer.

    gRPC logs each with a traceback, and any caller could fill the disk with them.
    """
    output = io.StringIO()
    configure_logging(ZooKeeperSettings(), stream=output)
    core = logging.getLogger("grpc._cython.cygrpc")
    core.error("Invalid encoding on %s", b"\xff")
    core.error("ExecuteBatchError raised in core by servicer method [/strandline.v1.Admin/DrainBroker]")
    core.error("Unexpected [%s] raised by servicer method", "ValueError")
    (line,) = output.getvalue().splitlines()
    assert json.loads(line)["event"] == "Unexpected [ValueError] raised by servicer method"
