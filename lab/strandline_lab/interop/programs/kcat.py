"""kcat: metadata, records of each codec, and a group."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Final

from strandline_lab.interop.programs.claims import claim, same, version
from strandline_lab.interop.programs.security import librdkafka_file

SECONDS: Final = 60.0
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS: Final = 100


class Client:
    """Works on a topic of its own, which brokers create on demand."""

    def __init__(self, bootstrap: str) -> None:
        file = librdkafka_file()
        self.common = ["-b", bootstrap] if file is None else ["-F", str(file), "-b", bootstrap]
        self.topic = self.group = f"kcat-{time.time_ns()}"

    def run(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            ["kcat", *self.common, *arguments],
            input=given, text=True, capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(done.stderr.strip())
        return done.stdout

    def metadata(self) -> None:
        same(self.run("-L").count("\n  broker "), 3)

    def produce(self) -> None:
        for codec in CODECS:
            lines = "".join(f"{codec}-{number}\n" for number in range(RECORDS))
            self.run(
                "-P", "-t", self.topic, "-z", codec, "-X", "acks=all", "-X", "enable.idempotence=true",
                given=lines,
            )  # fmt: skip

    def consume(self) -> None:
        read = self.run("-C", "-t", self.topic, "-o", "beginning", "-e", "-q").split()
        same(len(set(read)), len(CODECS) * RECORDS)

    def in_group(self) -> None:
        """The second run has nothing left to read."""
        counts = [
            len(
                self.run("-G", self.group, "-X", "auto.offset.reset=earliest", "-e", "-q", self.topic).split()
            )
            for _ in range(2)
        ]
        same(counts, [len(CODECS) * RECORDS, 0])

    def offsets(self) -> None:
        same("offset 0" in self.run("-Q", "-t", f"{self.topic}:0:1"), True)


def main(bootstrap: str) -> None:
    words = subprocess.run(["kcat", "-V"], text=True, capture_output=True, check=False).stdout.split()
    version(f"{words[words.index('Version') + 1]} (librdkafka {words[words.index('librdkafka') + 1]})")
    client = Client(bootstrap)
    claim("metadata is listed", client.metadata)
    claim("batches of each codec are acknowledged", client.produce)
    claim("a partition is read", client.consume)
    claim("a group reads, commits, and goes on where it was", client.in_group)
    claim("offsets are found by time", client.offsets)


if __name__ == "__main__":
    main(sys.argv[1])
