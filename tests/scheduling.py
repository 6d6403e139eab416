"""How the files of tests are spread over processes."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling


class SparkTogether(LoadFileScheduling):  # type: ignore[misc]  # it ships no types
    """Those of one file stay together, for they may share a cluster; all that use Spark are as one file.

    They share its JVM then, are begun with, and never run two at a time: each of them uses several cores.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "spark" if "/pipeline/" in file else file
