"""Clusters for the tests of your application, in its process: no Java, no ports, no other processes.

Brokers, controllers and clients are the real ones. `SimulatedCluster` runs them on virtual time from one
seed, `MemoryCluster` on real time within your event loop. docs/use/testing-your-application.md has examples.

The names are imported on first use (PEP 562): pytest loads the plugin of this package in every run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strandline.testing.application import Application as Application
    from strandline.testing.errors import ConditionNotReached as ConditionNotReached
    from strandline.testing.errors import MemberFailed as MemberFailed
    from strandline.testing.errors import NotPossible as NotPossible
    from strandline.testing.errors import UnknownMember as UnknownMember
    from strandline.testing.errors import Vacant as Vacant
    from strandline.testing.memory import MemoryCluster as MemoryCluster
    from strandline.testing.simulated import SimulatedCluster as SimulatedCluster

_HOMES = {
    "Application": "application",
    "ConditionNotReached": "errors",
    "MemberFailed": "errors",
    "MemoryCluster": "memory",
    "NotPossible": "errors",
    "SimulatedCluster": "simulated",
    "UnknownMember": "errors",
    "Vacant": "errors",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605  # made from the table


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"strandline.testing.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'strandline.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*_HOMES, *(name for name in globals() if name.startswith("__"))})
