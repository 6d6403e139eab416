"""Clients and frameworks that are used as an application uses them, each by a program of this repository."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from strandline_lab.interop.outcome import Place, Suite
from strandline_lab.interop.process import run
from strandline_lab.interop.security import Security
from strandline_lab.interop.suites.java import BEFORE_KIP_890, HOW, java
from strandline_lab.interop.suites.programs import PROGRAMS, Command, program_suite

BUILD_S_MAX: Final = 900.0


def here(module: str, program: str) -> Command:
    """A program for this environment's Python, if it has the module."""

    def command(_place: Place) -> Sequence[str | Path] | None:
        return (
            [sys.executable, "-m", f"strandline_lab.interop.programs.{program}"]
            if find_spec(module)
            else None
        )

    return command


def node(package: str, program: str) -> Command:
    """A program for Node.js, if the package is in SUITES/node."""

    def command(place: Place) -> Sequence[str | Path] | None:
        packages = place.suites / "node" / "node_modules"
        own = packages / ".bin" / "node"  # of npm's package `node`, for a newer one than the system's
        runtime = own if own.exists() else shutil.which("node")
        if not (packages / package).is_dir() or runtime is None:
            return None
        return [runtime, PROGRAMS / program, packages / package]

    return command


def golang(program: str) -> Command:
    """A program that Go compiles as it starts it, with the library that go.mod pins."""

    def command(_place: Place) -> Sequence[str | Path] | None:
        return ["go", "run", "-C", PROGRAMS / "go", f"./{program}"] if shutil.which("go") else None

    return command


def rust(place: Place) -> Sequence[str | Path] | None:
    """A program that Cargo builds, with the library that Cargo.lock pins; it has librdkafka's source."""
    if shutil.which("cargo") is None:
        return None
    target = place.output / "cargo"
    build: list[str | Path] = [
        "cargo",
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        PROGRAMS / "rust" / "Cargo.toml",
    ]
    made = run(
        build, place.output / "cargo.log", seconds=BUILD_S_MAX, environment={"CARGO_TARGET_DIR": f"{target}"}
    )
    return [target / "release" / "interop"] if made == 0 else None


def kcat(_place: Place) -> Sequence[str | Path] | None:
    return [sys.executable, "-m", "strandline_lab.interop.programs.kcat"] if shutil.which("kcat") else None


def application(module: str, program: str) -> Command:
    """A program for the Python of SUITES/applications, if it has the module."""

    def command(place: Place) -> Sequence[str | Path] | None:
        home = place.suites / "applications"
        if not any(home.glob(f"lib/python*/site-packages/{module}")):
            return None
        return [home / "bin" / "python", "-m", f"strandline_lab.interop.programs.{program}"]

    return command


WITH_SECURITY: Final[tuple[tuple[str, str, Command], ...]] = (
    ("kcat", "Debian's package kcat", kcat),
    ("confluent-kafka", "make setup", here("confluent_kafka", "confluent_client")),
    ("aiokafka client", "make setup", here("aiokafka", "aiokafka_client")),
    ("kafka-python client", "make setup", here("kafka", "kafka_python_client")),
    ("Java kafka-clients", HOW, java("KafkaClients")),
)
"""Clients that are also run with certificates and logins."""
STAYS: Final = {
    ("kcat", Security.SCRAM): {"*": "librdkafka before 2.6.1 sends a wrong nonce, and is refused"}
}

GO: Final = "Go 1.26 or later, and a way to its module proxy"
WITHOUT_STAMP: Final = {"GOFLAGS": "-buildvcs=false"}

SUITES: Final[tuple[Suite, ...]] = (
    *(program_suite(*client) for client in WITH_SECURITY),
    *(
        program_suite(
            f"{name}/{security}", how, command, stays=STAYS.get((name, security)), security=security
        )
        for name, how, command in WITH_SECURITY
        for security in Security
    ),
    program_suite("Java transactions", HOW, java("Transactions")),
    program_suite("Java transactions/3.9", HOW, java("Transactions", version=BEFORE_KIP_890)),
    program_suite("kafkajs", "npm install kafkajs in SUITES/node", node("kafkajs", "kafkajs.mjs")),
    program_suite(
        "@platformatic/kafka",
        "npm install @platformatic/kafka in SUITES/node",
        node("@platformatic/kafka", "platformatic.mjs"),
    ),
    *(
        program_suite(name, GO, golang(program), environment=WITHOUT_STAMP, may_repeat=program == "kafkago")
        for name, program in (("Sarama", "sarama"), ("franz-go client", "franz"), ("kafka-go", "kafkago"))
    ),
    program_suite("rdkafka", "Cargo 1.85 or later, a compiler for C, and a way to crates.io", rust),
    program_suite(
        "Faust", "pip install faust-streaming in SUITES/applications",
        application("faust", "faust_application"),
    ),
    program_suite(
        "FastStream", "pip install faststream[kafka] in SUITES/applications",
        application("faststream", "faststream_application"),
    ),
    program_suite(
        "Quix Streams", "pip install quixstreams in SUITES/applications",
        application("quixstreams", "quix_application"),
    ),
)  # fmt: skip
