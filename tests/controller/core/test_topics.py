"""Refusals when a topic is created or altered, and their messages (CORRECTNESS I11)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.config.limits import (
    PARTITIONS_PER_TOPIC_MAX,
    REPLICAS_PER_BROKER_MAX,
    TOPIC_NAME_LENGTH_MAX,
    TOPICS_PER_REQUEST_MAX,
)
from strandline.controller.core.cluster import ClusterPicture, PlacedTopic
from strandline.controller.core.topics import (
    INTERNAL_CONFIGS,
    NEW_PARTITIONS_PER_REQUEST_MAX,
    Brokers,
    change_config,
    check_config,
    check_internal_config,
    check_name,
    check_new_partitions,
    check_request,
    plan_topic,
)
from strandline.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    StrandlineError,
    TopicAlreadyExists,
)
from strandline.ids import BrokerEpoch, BrokerId, TopicId
from strandline.vocabulary.admin import NewTopic
from strandline.vocabulary.metadata import Endpoint, Registration
from strandline.vocabulary.topic_config import TopicConfig


def live(*ids: int, leaving: tuple[int, ...] = (), dead: tuple[int, ...] = ()) -> Brokers:
    registered = {
        BrokerId(i): Registration(Endpoint(i, "h", 1), BrokerEpoch(10 + i), i in leaving)
        for i in (*ids, *leaving)
    }
    return Brokers(registered, registered.keys() | {BrokerId(i) for i in dead})


THREE = live(1, 2, 3)


def refusal(
    new: NewTopic, brokers: Brokers = THREE, picture: ClusterPicture | None = None
) -> StrandlineError:
    with pytest.raises(StrandlineError) as caught:
        plan_topic(new, brokers, picture or ClusterPicture(), internal=False)
    return caught.value


@settings(deadline=None)  # a machine under load is no failure
@given(st.from_regex(r"[a-zA-Z0-9.\-][a-zA-Z0-9._\-]{0,248}", fullmatch=True).filter(lambda n: n.strip(".")))
def test_legal_names_are_accepted(name: str) -> None:
    check_name(name, internal=False)


@settings(deadline=None)  # a machine under load is no failure
@given(
    st.text(min_size=1, max_size=20).filter(lambda n: not n.isascii() or not n.replace("-", "a").isalnum())
)
def test_names_with_other_characters_are_refused(name: str) -> None:
    if all(c.isascii() and (c.isalnum() or c in "._-") for c in name):
        return
    with pytest.raises(InvalidTopic, match="only ASCII letters"):
        check_name(name, internal=False)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "empty"),
        (".", "not allowed"),
        ("..", "not allowed"),
        ("a/b", "only ASCII"),
        ("a b", "only ASCII"),
        ("a\n", "only ASCII"),
        ("x" * (TOPIC_NAME_LENGTH_MAX + 1), "at most 249"),
        ("__consumer_offsets", "system's own"),
    ],
)
def test_a_bad_name_is_refused_with_its_reason(name: str, says: str) -> None:
    with pytest.raises(InvalidTopic, match=says):
        check_name(name, internal=False)


def test_the_systems_own_names_are_allowed_to_the_system() -> None:
    check_name("__consumer_offsets", internal=True)


@pytest.mark.parametrize("name", ["a.b", "a_b", "...", "x" * TOPIC_NAME_LENGTH_MAX, "_x"])
def test_dots_and_underscores_are_allowed_side_by_side(name: str) -> None:
    check_name(name, internal=False)


@pytest.mark.parametrize("config", sorted(INTERNAL_CONFIGS))
def test_configs_that_the_system_relies_on_cannot_be_changed(
    config: str,
) -> None:
    with pytest.raises(InvalidConfig, match=f"its {config} cannot be changed"):
        check_internal_config("__consumer_offsets", {"retention.ms", config})
    check_internal_config("orders", {config})
    check_internal_config("__state_changes", {"retention.ms", "segment.bytes", "min.insync.replicas"})


def test_internal_topics_are_created_without_unclean_elections() -> None:
    """A request that is marked internal is trusted."""
    new = NewTopic("__consumer_offsets", 1, 1, {"unclean.leader.election.enable": "true"})
    with pytest.raises(InvalidConfig, match="cannot be changed"):
        plan_topic(new, THREE, ClusterPicture(), internal=True)
    allowed = NewTopic("__consumer_offsets", 1, 1, {"cleanup.policy": "compact", "segment.bytes": "8388608"})
    assert plan_topic(allowed, THREE, ClusterPicture(), internal=True).config["cleanup.policy"] == "compact"


def test_partitions_are_counted_over_all_topics_of_a_request() -> None:
    """A thousand topics of ten thousand partitions would be placed in one go."""
    many = [NewTopic(f"t{number}", PARTITIONS_PER_TOPIC_MAX, 1) for number in range(3)]
    check_new_partitions(many[:2])
    with pytest.raises(InvalidRequest, match="30000 partitions in one request") as raised:
        check_new_partitions(many)
    assert raised.value.limit == NEW_PARTITIONS_PER_REQUEST_MAX
    check_new_partitions([NewTopic("t", 2**31 - 1, 1), NewTopic("u", -1, 1)])  # each has an error of its own


def test_a_name_that_exists_is_refused() -> None:
    picture = ClusterPicture()
    picture.add("t", PlacedTopic(TopicId("0" * 32), [(BrokerId(1),)]))
    assert isinstance(refusal(NewTopic("t", 1, 1), picture=picture), TopicAlreadyExists)


@pytest.mark.parametrize("partitions", [-1, 0, PARTITIONS_PER_TOPIC_MAX + 1])
def test_a_number_of_partitions_out_of_bounds_is_refused_with_the_bound(partitions: int) -> None:
    error = refusal(NewTopic("t", partitions, 1))
    assert isinstance(error, InvalidPartitions)
    assert error.limit == PARTITIONS_PER_TOPIC_MAX
    assert str(partitions) in error.message


@pytest.mark.parametrize("replication_factor", [-1, 0, 4])
def test_a_replication_factor_out_of_bounds_is_refused_with_the_number_of_live_brokers(
    replication_factor: int,
) -> None:
    error = refusal(NewTopic("t", 1, replication_factor))
    assert isinstance(error, InvalidReplicationFactor)
    assert error.limit == 3
    assert "3 brokers are alive" in error.message


def test_a_broker_that_shuts_down_gets_no_new_replicas() -> None:
    """CORRECTNESS I7."""
    brokers = live(1, 2, leaving=(3,))
    plan = plan_topic(NewTopic("t", 10, 2), brokers, ClusterPicture(), internal=False)
    assert {broker for assignment in plan.assignments for broker in assignment} == {1, 2}
    assert refusal(NewTopic("t", 1, 3), brokers).limit == 2


def test_without_brokers_the_error_says_that_none_is_alive() -> None:
    assert "no broker is alive" in refusal(NewTopic("t", 1, 1), live()).message


def test_a_bound_above_the_replication_factor_is_kept_and_the_factor_is_in_force() -> None:
    """CORRECTNESS I11: a bound that no write could meet would stop the topic. Kafka does the same."""
    plan = plan_topic(
        NewTopic("t", 1, 2, {"min.insync.replicas": "3"}), THREE, ClusterPicture(), internal=False
    )
    assert plan.config == {"min.insync.replicas": "3"}
    config = TopicConfig.parse(plan.config)
    assert [config.min_insync(size) for size in (1, 2, 3, 4)] == [1, 2, 3, 3]


def test_a_least_age_of_compaction_above_the_largest_is_refused() -> None:
    lags = {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"}
    error = refusal(NewTopic("t", 1, 1, lags))
    assert isinstance(error, InvalidConfig) and error.limit == 5
    assert "min.compaction.lag.ms=6 is more than max.compaction.lag.ms=5" in error.message


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"retention.s": "1"}, "unknown topic config 'retention.s'"),
        ({"retention.ms": "soon"}, "retention.ms"),
        ({"cleanup.policy": "shred"}, "cleanup.policy"),
        ({"min.insync.replicas": "0"}, "min.insync.replicas"),
    ],
)
def test_a_bad_config_is_refused_by_name(config: dict[str, str], says: str) -> None:
    error = refusal(NewTopic("t", 1, 1, config))
    assert isinstance(error, InvalidConfig)
    assert says in error.message


LONGS = [
    field.alias or name
    for name, field in TopicConfig.model_fields.items()
    if field.annotation is int and not any(hasattr(each, "le") for each in field.metadata)
]


@pytest.mark.parametrize("value", [str(2**63), "9" * 5_000], ids=["64-bits", "digits"])
@pytest.mark.parametrize("name", LONGS)
def test_a_number_beyond_kafkas_type_of_it_is_refused_by_its_value_and_bound(name: str, value: str) -> None:
    """Clients of the Kafka port could not read it. Earlier versions stored such numbers: they stay readable,
    and the replicas' logs open."""
    most = 2**31 - 1 if name == "index.interval.bytes" else 2**63 - 1
    error = refusal(NewTopic("t", 1, 1, {name: value}))
    assert isinstance(error, InvalidConfig)
    assert error.message.startswith(f"topic config {name}='{value[:64]}")
    assert error.message.endswith(f"give at most {most}") and len(error.message) < 200
    with pytest.raises(InvalidConfig, match=f"{name}=.*give at most {most}"):
        change_config({}, {name: value}, [])
    assert change_config({name: str(2**63)}, {}, [name]) == {}
    assert check_config({name: str(most)}) == {name: str(most)}
    assert TopicConfig.parse({name: str(2**63)}).overrides() == {name: str(2**63)}


@pytest.mark.parametrize("value", ["-2", "nan", "inf", "-inf", "1.5", "1e3", "0x10", ""])
@pytest.mark.parametrize("name", [*LONGS, "min.insync.replicas", "segment.bytes", "max.message.bytes"])
def test_what_is_no_whole_number_of_a_config_is_refused(name: str, value: str) -> None:
    error = refusal(NewTopic("t", 1, 1, {name: value}))
    assert isinstance(error, InvalidConfig) and f"{name}={value!r}" in error.message


@pytest.mark.parametrize("value", ["-0.1", "1.1", "nan", "inf", "1e400"])
def test_a_fraction_is_of_one(value: str) -> None:
    error = refusal(NewTopic("t", 1, 1, {"min.cleanable.dirty.ratio": value}))
    assert isinstance(error, InvalidConfig) and repr(value) in error.message


def test_an_explicit_assignment_is_taken_as_it_is() -> None:
    new = NewTopic("t", 0, assignments=((3, 1), (2, 3)))
    plan = plan_topic(new, THREE, ClusterPicture(), internal=False)
    assert plan.assignments == ((3, 1), (2, 3))


def test_an_explicit_assignment_may_name_a_broker_that_is_down() -> None:
    plan = plan_topic(
        NewTopic("t", 0, assignments=((1, 9),)), live(1, dead=(9,)), ClusterPicture(), internal=False
    )
    assert plan.assignments == ((1, 9),)


@pytest.mark.parametrize(
    ("assignments", "partitions", "says"),
    [
        (((1, 4),), 0, "broker 4 is not known; known are 1, 2, 3, 9"),
        (((1, 1),), 0, "name a broker twice"),
        (((1, 2), (3,)), 0, "equally many"),
        (((),), 0, "name no broker"),
        (((1,),), 2, "2 partitions, but assignments for 1"),
        (((9,),), 0, "none of them is alive"),
    ],
)
def test_a_bad_assignment_is_refused_with_partition_and_brokers(
    assignments: tuple[tuple[int, ...], ...], partitions: int, says: str
) -> None:
    error = refusal(NewTopic("t", partitions, assignments=assignments), live(1, 2, 3, dead=(9,)))
    assert isinstance(error, InvalidReplicaAssignment)
    assert says in error.message


def test_a_topic_that_would_overfill_a_broker_is_refused_with_the_bound() -> None:
    picture = ClusterPicture()
    full = [(BrokerId(1),)] * (REPLICAS_PER_BROKER_MAX - 1)
    picture.add("full", PlacedTopic(TopicId("0" * 32), full))
    plan_topic(NewTopic("t", 0, assignments=((1,),)), THREE, picture, internal=False)
    error = refusal(NewTopic("t", 0, assignments=((1,), (1,))), picture=picture)
    assert isinstance(error, InvalidPartitions)
    assert error.limit == REPLICAS_PER_BROKER_MAX
    assert "broker 1" in error.message


def test_a_removed_topic_frees_its_brokers_but_leaders_still_go_round() -> None:
    picture = ClusterPicture()
    picture.add("a", PlacedTopic(TopicId("a"), [(BrokerId(1), BrokerId(2))]))
    picture.remove("a", TopicId("another"))
    assert "a" in picture
    picture.remove("a", TopicId("a"))
    assert "a" not in picture
    assert set(picture.replicas.values()) == {0}
    assert picture.placed == 1


def test_too_many_topics_in_one_request_are_refused_with_the_bound() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_request([str(i) for i in range(TOPICS_PER_REQUEST_MAX + 1)])
    assert caught.value.limit == TOPICS_PER_REQUEST_MAX


def test_names_that_stand_twice_in_a_request_are_found() -> None:
    assert check_request(["a", "b", "a"]) == {"a"}


def test_a_change_of_config_is_made_on_top_of_what_is_set() -> None:
    now = {"retention.ms": "1000", "segment.bytes": "1048576"}
    assert change_config(now, {"retention.bytes": "5"}, ["segment.bytes", "flush.ms"]) == {
        "retention.ms": "1000",
        "retention.bytes": "5",
    }


def test_unsetting_an_unknown_config_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="unknown topic config"):
        change_config({}, {}, ["retention.s"])


def test_setting_and_unsetting_one_config_at_once_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="at once"):
        change_config({}, {"retention.ms": "1"}, ["retention.ms"])


def test_config_is_kept_under_kafkas_names_and_only_where_it_was_set() -> None:
    assert check_config({"unclean.leader.election.enable": "TRUE"}) == {
        "unclean.leader.election.enable": "true"
    }
