"""Decisions: Kafka's rules, and the index against a loop over all bindings."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from strandline.security.acls import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.decide import Acls, Decision, Ground, decide, decide_any
from strandline.security.principal import Principal

ALICE, BOB, EVERYONE = Principal("alice"), Principal("bob"), Principal("*")
HERE, THERE = "192.0.2.1", "192.0.2.2"
REAL = [each for each in Operation if each not in (Operation.ANY, Operation.ALL)]
TOPIC = ResourceType.TOPIC
IMPLYING = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def allow(
    name: str,
    operation: Operation = Operation.READ,
    *,
    principal: Principal = ALICE,
    host: str = "*",
    prefixed: bool = False,
    deny: bool = False,
    of: ResourceType = TOPIC,
) -> AclBinding:
    pattern = ResourcePattern(of, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)
    return AclBinding(pattern, principal, host, operation, Permission.DENY if deny else Permission.ALLOW)


def may(
    bindings: Sequence[AclBinding], operation: Operation = Operation.READ, name: str = "tides"
) -> Decision:
    return decide(Acls(1, bindings), ALICE, HERE, operation, TOPIC, name)


def test_a_literal_a_prefix_and_the_star_allow() -> None:
    for each in (allow("tides"), allow("*"), allow("tid", prefixed=True), allow("tides", prefixed=True)):
        assert may([each]) == Decision(True, each)
    for each in (allow("tide"), allow("tides2", prefixed=True), allow("*", prefixed=True), allow("t*")):
        assert may([each]) == Decision(False, Ground.NO_ACL_FOUND)


def test_a_denial_wins_whatever_its_pattern() -> None:
    for denies in (allow("tides", deny=True), allow("*", deny=True), allow("t", prefixed=True, deny=True)):
        for allows in (allow("tides"), allow("*"), allow("tides", prefixed=True)):
            assert may([allows, denies]) == Decision(False, denies)


def test_only_an_allow_implies_a_description() -> None:
    for operation in IMPLYING[Operation.DESCRIBE]:
        assert may([allow("tides", operation)], Operation.DESCRIBE).allowed
    both = [allow("tides", Operation.READ, deny=True), allow("tides", Operation.DESCRIBE)]
    assert may(both, Operation.DESCRIBE).allowed
    assert not may(both, Operation.READ).allowed
    assert not may([allow("tides", Operation.DESCRIBE)]).allowed


def test_the_principal_and_the_host_must_match() -> None:
    assert may([allow("tides", principal=EVERYONE)]).allowed
    assert may([allow("tides", host=HERE)]).allowed
    assert may([allow("tides", host=THERE)]) == Decision(False, Ground.NO_ACL)
    assert may([allow("tides", principal=BOB)]) == Decision(False, Ground.NO_ACL)
    assert may([allow("tides", principal=Principal("*", "Group"))]) == Decision(False, Ground.NO_ACL)


def test_another_type_of_resource_with_the_same_name_is_another_resource() -> None:
    assert not may([allow("tides", of=ResourceType.GROUP), allow("*", of=ResourceType.GROUP)]).allowed


NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "a*", "abcd"])
BINDINGS = st.lists(
    st.builds(
        AclBinding,
        st.builds(
            ResourcePattern,
            st.sampled_from([TOPIC, ResourceType.GROUP]),
            NAMES,
            st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
        ),
        st.sampled_from([ALICE, BOB, EVERYONE]),
        st.sampled_from([HERE, THERE, "*"]),
        st.sampled_from([*REAL, Operation.ALL]),
        st.sampled_from([Permission.ALLOW, Permission.DENY]),
    ),
    max_size=12,
)
CALLERS = st.tuples(st.sampled_from([ALICE, BOB, Principal("carol")]), st.sampled_from([HERE, THERE, "x"]))


def counting(
    bindings: Sequence[AclBinding],
    caller: tuple[Principal, str],
    operation: Operation,
    permission: Permission,
) -> list[AclBinding]:
    """The bindings that are about a caller and an operation, by a loop."""
    allows = permission is Permission.ALLOW
    wanted = {operation, Operation.ALL} | (IMPLYING.get(operation, set()) if allows else set())
    return [
        each
        for each in bindings
        if each.permission is permission
        and each.principal in (caller[0], EVERYONE)
        and each.host in (caller[1], "*")
        and each.operation in wanted
    ]


def covers(pattern: ResourcePattern, of: ResourceType, name: str) -> bool:
    if pattern.resource_type is not of:
        return False
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in ("*", name)


@given(BINDINGS, CALLERS, st.sampled_from(REAL), st.sampled_from(["a", "ab", "abcd", "abcde", "c", "*"]))
def test_the_index_decides_as_a_loop_over_all_bindings(
    bindings: list[AclBinding], caller: tuple[Principal, str], operation: Operation, name: str
) -> None:
    about = [each for each in bindings if covers(each.pattern, TOPIC, name)]
    denied = bool(counting(about, caller, operation, Permission.DENY))
    allowed = bool(counting(about, caller, operation, Permission.ALLOW))
    decision = decide(Acls(1, bindings), *caller, operation, TOPIC, name)
    assert decision.allowed is (allowed and not denied)
    assert (decision.why is Ground.NO_ACL_FOUND) is (not about)
    if denied or allowed:
        assert isinstance(decision.why, AclBinding)
        assert decision.why in counting(about, caller, operation, decision.why.permission)


@given(BINDINGS, CALLERS, st.sampled_from(REAL))
def test_any_resource_is_found_exactly_if_there_is_one(
    bindings: list[AclBinding], caller: tuple[Principal, str], operation: Operation
) -> None:
    """A name that no pattern names stands for the rest of what a prefix or the star covers."""
    names = ["a", "ab", "abc", "b", "*", "a*", "abcd", "z?", "a?", "ab?", "abc?", "abcd?", "b?", "*?", "a*?"]
    acls = Acls(1, bindings)
    some = any(decide(acls, *caller, operation, TOPIC, name).allowed for name in names)
    assert decide_any(acls, *caller, operation, TOPIC).allowed is some


@given(BINDINGS, BINDINGS)
def test_replaced_patterns_make_the_same_picture_as_a_new_one(
    before: list[AclBinding], after: list[AclBinding]
) -> None:
    old = Acls(1, before)
    changes = {pattern: [each for each in after if each.pattern == pattern] for pattern in old.patterns} | {
        each.pattern: [other for other in after if other.pattern == each.pattern] for each in after
    }
    new = old.replaced(2, changes)
    assert list(new) == list(Acls(2, after)) == sorted(set(after))
    assert list(old) == sorted(set(before))
    assert new.version == 2
    for name in ("a", "abcd", "c"):
        assert decide(new, ALICE, HERE, Operation.READ, TOPIC, name) == decide(
            Acls(2, after), ALICE, HERE, Operation.READ, TOPIC, name
        )
