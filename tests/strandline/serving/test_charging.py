"""What callers are charged for the time of their calls."""

from __future__ import annotations

import pytest

from strandline.adapters.rpc.serving import serve_call
from strandline.adapters.telemetry.audit import Audit
from strandline.errors import InvalidRequest
from strandline.ports import Caller, Listener, Rpc, ServedCall
from strandline.security.access import Access
from strandline.security.authorizer import Authorizer
from strandline.security.principal import Principal
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import DEFAULT, Quota, QuotaEntity, Quotas
from strandline.serving.serve import CallRow, Serving
from tests.hand_clock import HandClock

ALICE = Caller("ipv4:192.0.2.1:9", "192.0.2.1", principal=Principal("alice"))
READ_S = WRITTEN_S = 0.5
CALLS = 5


@pytest.mark.parametrize("malformed", [False, True])
async def test_a_caller_pays_for_reading_its_requests_and_writing_the_answers(malformed: bool) -> None:
    """A request of 20,000 elements takes much longer to read than to refuse."""
    clock = HandClock()
    quotas = ClientQuotas(lambda caller: False, clock.monotonic, delay_ms_max=60_000)
    quotas.take(Quotas({QuotaEntity(DEFAULT): {Quota.REQUEST_PERCENTAGE: 10}}))

    def decode(data: bytes) -> bytes:
        clock.now_s += READ_S
        if malformed:
            raise InvalidRequest("too many elements")
        return data

    def encode(answer: bytes, to: Listener) -> bytes:
        clock.now_s += WRITTEN_S
        return answer

    async def handle(request: bytes, caller: Caller) -> bytes:
        return request

    row = CallRow(Rpc("/strandline.v1.Log/Metadata", decode, encode), handle)
    (served,) = Serving(Access(Authorizer(None)), Audit("", clock), clock, quotas).served([row])
    assert isinstance(served, ServedCall)
    began = clock.now_s
    for _ in range(CALLS):
        try:
            assert (
                await serve_call(served, b"asked", ALICE, clock.monotonic, lambda name, ms: None) == b"asked"
            )
        except InvalidRequest:
            assert malformed
    taken_s = CALLS * (READ_S if malformed else READ_S + WRITTEN_S)
    assert (
        clock.now_s - began > (taken_s - READ_S - WRITTEN_S) / 0.1 - 1
    )  # a second's worth is there at first
