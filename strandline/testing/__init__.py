"""Clusters for the tests of your application, in its process: no Java, no ports, no other processes.

Brokers, controllers and clients are the real ones. `SimulatedCluster` runs them on virtual time from one
seed, `MemoryCluster` on real time within your event loop. docs/use/testing-your-application.md has examples.
"""

from __future__ import annotations

from strandline.testing.application import Application
from strandline.testing.errors import ConditionNotReached, MemberFailed, NotPossible, UnknownMember
from strandline.testing.memory import MemoryCluster
from strandline.testing.simulated import SimulatedCluster

__all__ = [
    "Application",
    "ConditionNotReached",
    "MemberFailed",
    "MemoryCluster",
    "NotPossible",
    "SimulatedCluster",
    "UnknownMember",
]
