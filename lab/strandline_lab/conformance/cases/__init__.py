"""What is asked, as plain data: one file for each family of APIs."""

from __future__ import annotations

from typing import Final

from strandline_lab.conformance.cases import (
    cluster,
    commits,
    configs,
    fetch,
    groups,
    members,
    migration,
    produce,
    replicas,
    security,
    topics,
)
from strandline_lab.conformance.cases.transactions import epochs, markers, offsets, producers, records

FAMILIES: Final = (
    cluster, topics, configs, produce, fetch, members, groups, migration, commits, security, replicas,
    producers, offsets, records, epochs, markers,
)  # fmt: skip
CASES: Final = tuple(case for family in FAMILIES for case in family.CASES)
