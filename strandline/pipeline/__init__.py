"""Spark over topics: the public names of `strandline.pipeline`.

It needs the extra `spark`: `pip install 'strandline[spark]'`. The names are imported on first use, so that a
reader with a Spark session of its own loads nothing that starts one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strandline.pipeline.source import StrandlineDataSource
    from strandline.pipeline.spark.session import session

_HOMES = {
    "StrandlineDataSource": "strandline.pipeline.source",
    "session": "strandline.pipeline.spark.session",
}
_OF_THE_EXTRA = frozenset({"pyspark", "py4j", "pyarrow", "pandas", "numpy", "matplotlib"})

__all__ = ["StrandlineDataSource", "session"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'strandline.pipeline' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in _OF_THE_EXTRA:
            raise ImportError(f"{missing.name} is missing: pip install 'strandline[spark]'") from missing
        raise
