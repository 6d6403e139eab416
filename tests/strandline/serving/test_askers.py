"""Whose quotas a call to the controller counts for."""

from __future__ import annotations

from dataclasses import replace

from strandline.adapters.rpc.member_key import MemberKey
from strandline.ports import Caller
from strandline.security.audit.entry import TEXT_CHARS_MAX, source_of, whole_source
from strandline.security.principal import ANONYMOUS, Principal
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import Quota, QuotaEntity, Quotas
from strandline.serving.askers import Askers
from tests.conftest import SessionFactory

MEMBER = Principal("broker-1")
LONG = "app" * TEXT_CHARS_MAX
QUOTAS = {
    QuotaEntity("alice", "app"): 1.0,
    QuotaEntity("alice"): 2.0,
    QuotaEntity("ANONYMOUS"): 3.0,
    QuotaEntity("alice", LONG): 4.0,
}
ALICE = Caller("kafka:192.0.2.1:1", "192.0.2.1", principal=Principal("alice"), client_id="app")


async def test_it_counts_for_the_client_of_a_broker_and_only_members_are_believed(
    open_session: SessionFactory,
) -> None:
    key = MemberKey(lambda: "x")
    await key.read(await open_session())
    clients = ClientQuotas(
        lambda caller: caller.principal == MEMBER or key.is_shown(caller.member_key),
        lambda: 0.0,
        delay_ms_max=1,
    )
    clients.take(Quotas({entity: {Quota.CONTROLLER_MUTATION_RATE: rate} for entity, rate in QUOTAS.items()}))

    def limit_of(caller: Caller) -> float | None:
        bill = Askers(key, clients).bill(caller)
        return None if bill is None else bill.limit(Quota.CONTROLLER_MUTATION_RATE)

    assert limit_of(ALICE) == 1
    assert limit_of(replace(ALICE, client_id="another")) == 2
    broker = Caller("ipv4:192.0.2.9:1", "192.0.2.9", member_key=key.shown(), principal=ANONYMOUS)
    assert limit_of(broker) is None
    assert limit_of(replace(broker, asks_for=source_of(ALICE))) == 1
    assert limit_of(replace(broker, asks_for=source_of(replace(ALICE, principal=MEMBER)))) is None
    assert limit_of(replace(broker, asks_for=whole_source(replace(ALICE, client_id=LONG)))) == 4
    assert limit_of(replace(broker, member_key=b"y", asks_for=source_of(ALICE))) == 3
    assert limit_of(replace(broker, member_key=None, principal=MEMBER)) is None


async def test_the_audit_log_gets_short_names_also_from_a_broker(open_session: SessionFactory) -> None:
    key = MemberKey(lambda: "x")
    await key.read(await open_session())
    alice = replace(ALICE, client_id=LONG, principal=Principal(LONG))
    broker = Caller("ipv4:192.0.2.9:1", "192.0.2.9", member_key=key.shown(), asks_for=whole_source(alice))
    askers = Askers(key, ClientQuotas(lambda caller: False, lambda: 0.0, delay_ms_max=1))
    for caller in (alice, broker):
        found = askers.source(caller)
        assert found is not None
        assert max(len(found.principal), len(found.client_id)) <= TEXT_CHARS_MAX + 1
