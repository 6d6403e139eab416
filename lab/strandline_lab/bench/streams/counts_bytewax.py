"""The Bytewax side of `bench.streams.counts`; run by a Python that has Bytewax, without other dependencies.

Arguments: records, keys, bytes of a value, a folder for snapshots. Prints records a second, as JSON.
"""

import json
import sys
import time
from datetime import timedelta
from pathlib import Path

import bytewax.operators as op  # type: ignore[import-not-found,unused-ignore]
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found,unused-ignore]
from bytewax.recovery import RecoveryConfig, init_db_dir  # type: ignore[import-not-found,unused-ignore]
from bytewax.testing import TestingSource, run_main  # type: ignore[import-not-found,unused-ignore]

EPOCH = timedelta(milliseconds=100)
"""Snapshots are taken as often as stream tasks commit by default."""
BATCH = 500
"""Records that the source hands over at a time, as a consumer does by default."""


def counts(records: list[tuple[str, bytes]], recovery: RecoveryConfig | None) -> float:
    """Records a second."""
    flow = Dataflow("counts")
    source = op.input("records", flow, TestingSource(records, batch_size=BATCH))
    counted = op.stateful_map("count", source, lambda count, _: ((count or 0) + 1,) * 2)
    op.inspect("counted", op.filter("none", counted, lambda _: False))
    began = time.perf_counter()
    run_main(flow, epoch_interval=EPOCH, recovery_config=recovery)
    return len(records) / (time.perf_counter() - began)


def main(records: int, keys: int, value_bytes: int, folder: Path) -> None:
    """Measures in this process, without snapshots and with them."""
    value = b"x" * value_bytes
    given = [(f"key-{number * 7_919 % keys}", value) for number in range(records)]
    init_db_dir(folder, 1)
    rates = {
        "Bytewax, in memory": counts(given, None),
        "Bytewax, snapshots to SQLite": counts(given, RecoveryConfig(str(folder))),
    }
    print(json.dumps(rates))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
