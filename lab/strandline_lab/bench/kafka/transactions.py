"""What transactions cost: their rate and the time of a commit, and in bulk against records without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from strandline_lab.bench.kafka.peers import Peer
from strandline_lab.bench.kafka.processes import CONTROL_CLIENT, PARTITIONS, run_client

CLIENT: Final = "strandline_lab.bench.kafka.transaction_client"
TRANSACTIONS, RECORDS, BYTES = 2_000, 10, 1_024
BULK: Final = 2_000_000
EVERY_MS: Final = 100
BULK_BYTES: Final = 100

HEADS: Final = {
    "transactions_per_s": f"transactions of {RECORDS} × {BYTES} B over {PARTITIONS} partitions: a second",
    "commit_p50_ms": "their commits, p50, ms",
    "commit_p99_ms": "their commits, p99, ms",
    "bulk_per_s": f"bulk of {BULK_BYTES} B without transactions: records/s",
    "bulk_in_transactions_per_s": f"bulk in transactions of {EVERY_MS} ms: records/s",
    "read_uncommitted_per_s": "reading those, uncommitted: records/s",
    "read_committed_per_s": "reading those, committed: records/s",
}


async def transactions(peer: Peer) -> dict[str, float]:
    """Commits come one after another. What was written in bulk is read uncommitted, twice committed, and
    uncommitted again: what the first reading warms up is not one level's gain."""
    for topic in ("commits", "plain", "transactional"):
        given = ("topics=1", f"partitions={PARTITIONS}", "at_once=1")
        await run_client(peer.bootstrap, "create", topic, *given, module=CONTROL_CLIENT)
    sizes = {"transactions": TRANSACTIONS, "records": RECORDS, "size": BYTES}
    commits = await _done(peer, "commits", "commits-0", **sizes)
    plain = await _done(peer, "bulk", "plain-0", records=BULK, size=BULK_BYTES, every_ms=0)
    bulk = await _done(peer, "bulk", "transactional-0", records=BULK, size=BULK_BYTES, every_ms=EVERY_MS)
    reads = [
        (await _done(peer, "read", "transactional-0", records=BULK, committed=committed))["records_per_s"]
        for committed in (0, 1, 1, 0)
    ]
    for topic in ("commits", "plain", "transactional"):
        await run_client(peer.bootstrap, "delete", topic, "topics=1", "at_once=1", module=CONTROL_CLIENT)
    return {
        "transactions_per_s": commits["per_s"],
        "commit_p50_ms": commits["p50_ms"],
        "commit_p99_ms": commits["p99_ms"],
        "bulk_per_s": plain["records_per_s"],
        "bulk_in_transactions_per_s": bulk["records_per_s"],
        "read_uncommitted_per_s": (reads[0] + reads[3]) / 2,
        "read_committed_per_s": (reads[1] + reads[2]) / 2,
    }


async def _done(peer: Peer, work: str, topic: str, **options: int) -> Mapping[str, Any]:
    given = [f"{name}={number}" for name, number in options.items()]
    return await run_client(peer.bootstrap, work, topic, *given, module=CLIENT)
