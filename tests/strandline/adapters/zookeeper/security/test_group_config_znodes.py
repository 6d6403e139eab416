"""Configs of groups as znodes: paths that any name fits into, and data of which nothing is guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.adapters.zookeeper.security.group_config_znodes import (
    dump_config,
    dump_group_change,
    group_child,
    load_config,
    load_group,
    load_group_change,
)
from strandline.adapters.zookeeper.znodes import UnreadableZnode

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20) | st.sampled_from(
    [".", "..", "a/b", "%2E"]
)


@given(NAMES)
def test_a_path_has_one_component_for_any_group(group: str) -> None:
    child = group_child(group)
    assert child.isascii() and child.isprintable() and "/" not in child and child not in (".", "..")
    assert load_group(child) == group
    assert load_group_change("/p", dump_group_change([group])) == (group,)


@pytest.mark.parametrize("child", ["", "a b", "%61", "%ff", "a%2", "..", "a/b"])
def test_another_spelling_is_no_second_znode_of_a_group(child: str) -> None:
    with pytest.raises(UnreadableZnode):
        load_group(child)


def test_a_config_is_read_as_it_was_written() -> None:
    config = {"consumer.session.timeout.ms": "50000"}
    assert load_config("g", dump_config(config)) == config


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b'{"consumer.session.timeout.ms": 5}',
        b'{"consumer.session.timeout.ms": "x"}',
    ],
)
def test_garbage_is_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableZnode):
        load_config("g", data)


def test_a_notice_about_something_else_names_no_group() -> None:
    assert load_group_change("/p", b'{"quotas": ["user=a"]}') == ()
    with pytest.raises(UnreadableZnode):
        load_group_change("/p", b'{"groups": [7]}')
