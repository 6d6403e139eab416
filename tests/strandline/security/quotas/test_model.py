"""Which quota holds for a caller, and what may be set."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import InvalidRequest
from strandline.security.quotas.model import (
    ANY,
    DEFAULT,
    RATE_MAX,
    RATE_MIN,
    Held,
    Quota,
    QuotaAlteration,
    QuotaEntity,
    QuotaFilter,
    Quotas,
)

RATE, CONNECTIONS = Quota.PRODUCER_BYTE_RATE, Quota.CONNECTION_CREATION_RATE
ADDRESS = "192.0.2.1"
NAMES = ("alice", "bob")
ENTITIES = st.builds(
    lambda parts: QuotaEntity(*parts),
    st.tuples(*[st.sampled_from([None, DEFAULT, *NAMES])] * 2).filter(lambda parts: parts != (None, None)),
)
KAFKAS_ORDER = (
    ("exact", "exact"), ("exact", "default"), ("exact", None),
    ("default", "exact"), ("default", "default"), ("default", None),
    (None, "exact"), (None, "default"),
)  # fmt: skip
"""Of user and client id: a quota for an earlier pair holds before one for a later pair (Kafka's
documentation, "Quota Configuration")."""


def rank(entity: QuotaEntity) -> int:
    kinds = [
        None if name is None else "default" if name == DEFAULT else "exact"
        for name in (entity.user, entity.client_id)
    ]
    return KAFKAS_ORDER.index((kinds[0], kinds[1]))


def concerns(entity: QuotaEntity, user: str, client_id: str) -> bool:
    return entity.user in (None, DEFAULT, user) and entity.client_id in (None, DEFAULT, client_id)


@given(
    st.dictionaries(ENTITIES, st.integers(1, 100)),
    st.sampled_from([*NAMES, "carol"]),
    st.sampled_from([*NAMES, "carol"]),
)
def test_the_most_specific_quota_holds_in_kafkas_order(
    limits: dict[QuotaEntity, int], user: str, client_id: str
) -> None:
    """And those share it who have the same name where it has one."""
    quotas = Quotas({entity: {RATE: limit} for entity, limit in limits.items()})
    held = quotas.held(RATE, user, client_id)
    possible = sorted((each for each in limits if concerns(each, user, client_id)), key=rank)
    if not possible:
        assert held is None
        return
    first = possible[0]
    shares_user = None if first.user is None else user
    shares_client = None if first.client_id is None else client_id
    assert held == Held(limits[first], shares_user, shares_client)
    assert quotas.held(Quota.CONSUMER_BYTE_RATE, user, client_id) is None


def test_each_quota_is_looked_for_by_itself() -> None:
    """A more specific entity with another quota does not hide a less specific one with this."""
    of = {
        QuotaEntity("alice", "x"): {Quota.CONSUMER_BYTE_RATE: 5.0},
        QuotaEntity(DEFAULT): {RATE: 7.0},
    }
    assert Quotas(of).held(RATE, "alice", "x") == Held(7, "alice", None)


@pytest.mark.parametrize(
    ("quota", "limit"),
    [
        (RATE, 0), (RATE, -1), (RATE, 1.5), (RATE, math.inf), (RATE, math.nan), (RATE, RATE_MAX * 2),
        (Quota.REQUEST_PERCENTAGE, 0), (Quota.REQUEST_PERCENTAGE, -0.5), (Quota.REQUEST_PERCENTAGE, 1e-322),
        (Quota.CONTROLLER_MUTATION_RATE, RATE_MIN / 2),
        (CONNECTIONS, 0), (CONNECTIONS, -1), (CONNECTIONS, 0.5), (CONNECTIONS, 1.5), (CONNECTIONS, 2**31),
    ],
)  # fmt: skip
def test_a_limit_that_cannot_be_is_refused(quota: Quota, limit: float) -> None:
    entity = QuotaEntity(ip=ADDRESS) if quota is CONNECTIONS else QuotaEntity("alice")
    with pytest.raises(InvalidRequest, match=f"{quota} = "):
        QuotaAlteration(entity, {quota: limit})


@pytest.mark.parametrize(
    ("entity", "quota"), [(QuotaEntity("alice"), CONNECTIONS), (QuotaEntity(ip=DEFAULT), RATE)]
)
def test_an_address_has_quotas_of_its_own_kind_alone(entity: QuotaEntity, quota: Quota) -> None:
    """As in Kafka, where the removal of another one is no error either."""
    with pytest.raises(InvalidRequest, match=f"{quota} is no quota of {entity}"):
        QuotaAlteration(entity, {quota: 1})
    assert not QuotaAlteration(entity, {quota: None}).sets


@pytest.mark.parametrize(
    "ip", ["localhost", "192.0.2", "192.0.2.1/24", "2001:db8::/64", "1" * 5_000, "<default>"]
)
def test_what_is_no_address_has_no_quota(ip: str) -> None:
    with pytest.raises(InvalidRequest, match="is no address of IPv4 or IPv6") as refused:
        QuotaEntity(ip=ip)
    assert len(refused.value.message) < 200


def test_an_address_has_one_spelling() -> None:
    assert QuotaEntity(ip="2001:DB8:0::7") == QuotaEntity(ip="2001:db8::7")
    assert QuotaEntity(ip="::ffff:192.0.2.1") == QuotaEntity(ip=ADDRESS)
    assert QuotaFilter(ip="2001:DB8:0::7").matches(QuotaEntity(ip="2001:db8::7"))
    assert not QuotaFilter(ip="localhost").matches(QuotaEntity(ip=DEFAULT))


@pytest.mark.parametrize("other", [{"user": "alice"}, {"client_id": "x"}, {"user": DEFAULT}])
def test_an_address_stands_alone(other: dict[str, str]) -> None:
    user, client_id = other.get("user"), other.get("client_id")
    with pytest.raises(InvalidRequest, match="stands alone"):
        QuotaEntity(user, client_id, ADDRESS)
    with pytest.raises(InvalidRequest, match="stands alone"):
        QuotaFilter(user, client_id, ip=ADDRESS)
    with pytest.raises(InvalidRequest, match="stands alone"):
        QuotaFilter(user=ANY, ip=ANY)


def test_an_alteration_sets_and_removes_and_leaves_the_rest() -> None:
    before = {RATE: 1.0, Quota.REQUEST_PERCENTAGE: 50.5}
    altered = QuotaAlteration(QuotaEntity("alice"), {RATE: None, Quota.CONSUMER_BYTE_RATE: 5})
    assert altered.after(before) == {Quota.REQUEST_PERCENTAGE: 50.5, Quota.CONSUMER_BYTE_RATE: 5}


def test_no_quota_is_for_the_name_that_the_default_is_shown_by() -> None:
    for entity in (QuotaEntity("<default>"), QuotaEntity("alice", "<default>")):
        with pytest.raises(InvalidRequest, match="'<default>' is no name"):
            QuotaAlteration(entity, {RATE: 1})
        assert QuotaAlteration(entity, {RATE: None}).after({RATE: 1}) == {}, "what is there can be removed"


@pytest.mark.parametrize(("user", "why"), [("*", "no user has the name"), ("User:alice", "without that")])
def test_no_quota_is_for_a_name_that_no_caller_has(user: str, why: str) -> None:
    """It would look like a limit, and hold for no caller."""
    entity = QuotaEntity(user, "app")
    with pytest.raises(InvalidRequest, match=why):
        QuotaAlteration(entity, {RATE: 1})
    assert QuotaAlteration(entity, {RATE: None}).after({RATE: 1}) == {}, "what is there can be removed"
    assert QuotaAlteration(QuotaEntity("alice", user), {RATE: 1}).sets, "a client may have this id"


def test_an_entity_has_a_name_and_it_is_not_too_long() -> None:
    with pytest.raises(InvalidRequest):
        QuotaEntity()
    with pytest.raises(InvalidRequest, match="cannot be printed"):
        QuotaEntity(None, "a\n")
    with pytest.raises(InvalidRequest, match="2000 characters"):
        QuotaEntity("a" * 2_000)


ALL = [
    QuotaEntity(None, DEFAULT),
    QuotaEntity(None, "x"),
    QuotaEntity(DEFAULT),
    QuotaEntity("alice"),
    QuotaEntity("alice", "x"),
    QuotaEntity(ip=DEFAULT),
    QuotaEntity(ip=ADDRESS),
]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (QuotaFilter(), ALL),
        (QuotaFilter(strict=True), []),
        (QuotaFilter(user="alice"), ALL[3:5]),
        (QuotaFilter(user="alice", strict=True), ALL[3:4]),
        (QuotaFilter(user=ANY), ALL[2:5]),
        (QuotaFilter(user=ANY, strict=True), ALL[2:4]),
        (QuotaFilter(user=DEFAULT), ALL[2:3]),
        (QuotaFilter(client_id="x"), [ALL[1], ALL[4]]),
        (QuotaFilter(client_id="x", strict=True), ALL[1:2]),
        (QuotaFilter(user=ANY, client_id=ANY), ALL[4:5]),
        (QuotaFilter(ip=ANY), ALL[5:]),
        (QuotaFilter(ip=ANY, strict=True), ALL[5:]),
        (QuotaFilter(ip=DEFAULT), ALL[5:6]),
        (QuotaFilter(ip=ADDRESS), ALL[6:]),
        (QuotaFilter(ip="192.0.2.9"), []),
    ],
)
def test_a_filter_chooses_as_in_kafka(wanted: QuotaFilter, found: list[QuotaEntity]) -> None:
    """KIP-546: strict leaves out entities with parts that the filter does not name."""
    limits = {entity: {RATE if entity.ip is None else CONNECTIONS: 1.0} for entity in reversed(ALL)}
    quotas = Quotas(limits)
    assert [each.entity for each in quotas.matching(wanted)] == found
