"""How far a replica is, as `topic describe` and `status` show it."""

from __future__ import annotations

from typing import Any

from strandline.report.text.durations import age
from strandline.report.text.sizes import size
from strandline.vocabulary.log import ReplicaProgress, known


def progress_row(progress: ReplicaProgress) -> dict[str, Any]:
    """One replica as JSON; unknown values are null."""
    return {
        "broker": progress.broker,
        "in_sync": progress.in_sync,
        "fetching": progress.fetching,
        "adding": progress.adding,
        "removing": progress.removing,
        "leo": known(progress.log_end_offset),
        "lag": known(progress.lag),
        "lag_bytes": known(progress.lag_bytes),
        "lag_ms": known(progress.lag_ms),
        "bytes_per_s": known(progress.bytes_per_s),
        "ms_left": known(progress.ms_left),
    }


def is_behind(progress: ReplicaProgress) -> bool:
    """True if the replica lacks something, or does not follow."""
    return progress.lag != 0 or not progress.in_sync or not progress.fetching


def pace_text(bytes_per_s: int | None, ms_left: int | None) -> list[str]:
    """The pace of a copy in words: "1.1 MB/s", "about 5.3 s". What is unknown is left out."""
    rate = [] if bytes_per_s is None else [f"{size(bytes_per_s)}/s"]
    return rate if ms_left is None else [*rate, f"about {age(ms_left)}"]


def lag_text(progress: ReplicaProgress) -> str:
    """One replica in words: "3: 1,200 offsets, 4.1 MB, 12.0 s, catching up, 1.1 MB/s, about 5.3 s"."""
    parts = ["nothing known of it" if progress.lag < 0 else f"{progress.lag:,} offsets"]
    if progress.lag_bytes > 0:
        parts.append(size(progress.lag_bytes))
    if progress.lag_ms > 0:
        parts.append(str(age(progress.lag_ms)))
    if not progress.fetching:
        parts.append("not fetching")
    elif not progress.in_sync:
        parts += ["catching up", *pace_text(known(progress.bytes_per_s), known(progress.ms_left))]
    return f"{progress.broker}: {', '.join(parts)}"
