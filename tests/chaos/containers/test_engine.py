"""Where there can be no engine, the run says why, and what to do; the base image is the Dockerfile's."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from strandline_lab.chaos.containers.engine import PROJECT, base_name
from strandline_lab.chaos.world import WorldFailed


def test_an_engine_that_was_named_and_does_not_answer_is_not_replaced_by_another() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "strandline_lab.chaos.containers", "true"],
        env={**os.environ, "DOCKER_HOST": "unix:///nowhere/docker.sock"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.returncode == 69
    assert ended.stderr == "error: no Docker engine answers at DOCKER_HOST = unix:///nowhere/docker.sock\n"


def test_without_a_command_the_usage_is_printed() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "strandline_lab.chaos.containers"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.returncode == 2
    assert "COMMAND" in ended.stderr


def test_the_base_image_is_that_of_the_dockerfile() -> None:
    assert base_name((PROJECT / "Dockerfile").read_text()) == "python:3.11-slim-bookworm"
    with pytest.raises(WorldFailed, match="names no base image"):
        base_name("FROM scratch\n")
