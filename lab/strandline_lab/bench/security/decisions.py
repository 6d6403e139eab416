"""Times an authorizer's decision, and both ends of a login, in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from strandline.adapters.system.clock import SystemClock
from strandline.ports import Caller, Listener
from strandline.security.acls import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.decide import Acls, decide
from strandline.security.login.credentials import Credential, make_credential
from strandline.security.login.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from strandline.security.login.scram import ScramClient, ScramLogin
from strandline.security.principal import Principal

BINDINGS: Final = 6_000
TIMES: Final = 20_000
LOGINS: Final = 20
HOST: Final = "192.0.2.1"

CLOCK: Final = SystemClock()


def measure_decisions() -> dict[str, float]:
    """Microseconds of one decision."""
    acls = Acls(1, [_binding(number) for number in range(BINDINGS)])
    caller = Caller("bench", HOST, Listener.INTERNAL, None, Principal("alice"))
    topic = ResourceType.TOPIC
    off, on = Authorizer(None), Authorizer(Rules())
    on.take(acls)

    def uncached() -> bool:
        return decide(acls, caller.principal, HOST, Operation.READ, topic, "team-17-tides").allowed

    assert uncached()
    return {
        "without an authorizer": _microseconds(
            lambda: off.allowed(caller, Operation.READ, topic, "team-17-tides"), TIMES
        ),
        f"among {BINDINGS:,} ACLs, asked before": _microseconds(
            lambda: on.allowed(caller, Operation.READ, topic, "team-17-tides"), TIMES
        ),
        f"among {BINDINGS:,} ACLs, for the first time": _microseconds(uncached, TIMES),
    }


def _binding(number: int) -> AclBinding:
    kind = PatternType.PREFIXED if number % 2 else PatternType.LITERAL
    pattern = ResourcePattern(ResourceType.TOPIC, f"team-{number}-", kind)
    return AclBinding(pattern, Principal("alice"), "*", Operation.READ, Permission.ALLOW)


def measure_logins() -> dict[str, float]:
    """Microseconds of one login, the client's work and the server's together."""
    found = {}
    for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512):
        credential = make_credential(mechanism, "wonderland-1", b"s" * 32)

        found[f"login by {mechanism}, both ends"] = _microseconds(
            partial(_log_in, mechanism, credential), LOGINS
        )
    return found


def _log_in(mechanism: str, credential: Credential) -> None:
    server = ScramLogin(mechanism, lambda name: (Principal(name), credential), "servernonce")
    client = ScramClient(mechanism, "alice", "wonderland-1", "clientnonce")
    client.check(server.step(client.final(server.step(client.first()).token)).token)


def _microseconds(work: Callable[[], object], times: int) -> float:
    began = CLOCK.monotonic()
    for _ in range(times):
        work()
    return (CLOCK.monotonic() - began) / times * 1e6
