"""Brings Java's libraries by Maven, and compiles the programs that use them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strandline_lab.interop.outcome import Place
from strandline_lab.interop.process import run
from strandline_lab.interop.suites.programs import PROGRAMS, Command

HOW: Final = "a JDK of Java 17 or later, and Maven"
NEWEST, BEFORE_KIP_890 = "4.4.0", "3.9.1"
BRING_S_MAX: Final = 300.0
COMPILE_S_MAX: Final = 120.0
QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def java(program: str, *, library: str = "kafka-clients", version: str = NEWEST) -> Command:
    """A program with the jars of a library of Kafka's project; None where Java or Maven is missing."""

    def command(place: Place) -> Sequence[str | Path] | None:
        if shutil.which("javac") is None or shutil.which("mvn") is None:
            return None
        home, sources = place.output / "java" / f"{program}-{version}", PROGRAMS / "java"
        jars, classes = home / "jars", home / "classes"
        shutil.rmtree(home, ignore_errors=True)
        bring: list[str | Path] = [
            "mvn", "-q", "-B", "-f", sources / "pom.xml", f"-Dlibrary={library}", f"-Dkafka={version}",
            "dependency:copy-dependencies", f"-DoutputDirectory={jars}",
        ]  # fmt: skip
        build: list[str | Path] = [
            "javac", "-d", classes, "-sourcepath", sources, "-cp", f"{jars}/*", sources / f"{program}.java",
        ]  # fmt: skip
        for words, log, seconds in ((bring, "jars.log", BRING_S_MAX), (build, "build.log", COMPILE_S_MAX)):
            if run(words, home / log, seconds=seconds) != 0:
                return None
        return ["java", QUIET, "-cp", f"{classes}:{jars}/*", program]

    return command
