"""Reading ACLs: whole at first, then by notices; what is unreadable denies, and ends no reader."""

from __future__ import annotations

import pytest

from strandline.adapters.zookeeper.security.acl_reader import AclReader
from strandline.adapters.zookeeper.security.acl_znodes import (
    CHANGE_PREFIX,
    CHANGES,
    SKELETON,
    dump_bindings,
    dump_change,
    pattern_path,
    refusing,
)
from strandline.ports import Create, Delete, Operation, SetData
from strandline.security import acls
from strandline.security.acls import AclBinding, PatternType, Permission, ResourcePattern, ResourceType
from strandline.security.principal import Principal
from tests.znode_tree import MemorySession, ZnodeTree

READ = acls.Operation.READ


def binding(name: str, principal: str = "alice") -> AclBinding:
    pattern = ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL)
    return AclBinding(pattern, Principal(principal), "*", READ, Permission.ALLOW)


async def opened() -> MemorySession:
    session = ZnodeTree().open_session()
    for path in SKELETON:
        await session.ensure_path(path)
    return session


async def write(session: MemorySession, *bindings: AclBinding, notice: bytes | None = None) -> None:
    """The ACLs of one pattern, as a controller writes them."""
    (pattern,) = {each.pattern for each in bindings}
    path, data = pattern_path(pattern), dump_bindings(bindings)
    there = await session.exists(path) is not None
    operations: list[Operation] = [SetData(path, data) if there else Create(path, data)]
    operations.append(Create(CHANGE_PREFIX, notice or dump_change([pattern]), sequential=True))
    await session.multi(operations)


async def remove(session: MemorySession, pattern: ResourcePattern) -> None:
    change = Create(CHANGE_PREFIX, dump_change([pattern]), sequential=True)
    await session.multi([Delete(pattern_path(pattern)), change])


async def test_a_change_costs_the_reads_of_what_its_notice_names() -> None:
    session = await opened()
    for name in "abc":
        await write(session, binding(name))
    reader = AclReader(session)
    assert list(await reader.load()) == [binding(name) for name in "abc"]
    session.reads.clear()
    assert await reader.look() is None
    await write(session, binding("b"), binding("b", "bob"))
    await remove(session, binding("c").pattern)
    found = await reader.look()
    assert found is not None
    assert list(found) == [binding("a"), binding("b"), binding("b", "bob")]
    assert pattern_path(binding("a").pattern) not in session.reads
    assert session.reads.total() == 4  # two notices, two patterns


async def test_the_first_notice_of_all_is_noticed() -> None:
    session = await opened()
    reader = AclReader(session)
    assert len(await reader.load()) == 0
    assert await reader.look() is None
    await write(session, binding("a"))
    found = await reader.look()
    assert found is not None and list(found) == [binding("a")]


async def test_each_picture_has_another_version_also_in_the_next_session() -> None:
    """Who remembers decisions of a version must not take another picture for it."""
    session = await opened()
    first = await AclReader(session, -1).load()
    reader = AclReader(session, first.version)
    versions = [first.version, (await reader.load()).version, reader.put({}).version]
    assert versions == [0, 1, 2]


async def test_after_removed_notices_everything_is_read_again() -> None:
    """One of them may have named a pattern that this reader has not read."""
    session = await opened()
    reader = AclReader(session)
    await write(session, binding("a"))
    await reader.load()
    await write(session, binding("b"))
    for notice in await session.children(CHANGES):
        await session.delete(f"{CHANGES}/{notice}")
    await write(session, binding("c"))
    found = await reader.look()
    assert found is not None and list(found) == [binding(name) for name in "abc"]


@pytest.mark.parametrize("notice", [b"[" * 100_000, b"x", b'{"acl": ["odd"]}', b'{"acl": 7}'])
async def test_a_notice_that_is_garbage_has_everything_read(notice: bytes) -> None:
    session = await opened()
    reader = AclReader(session)
    await write(session, binding("a"))
    await reader.load()
    await write(session, binding("b"), notice=notice)
    found = await reader.look()
    assert found is not None and list(found) == [binding("a"), binding("b")]
    assert await reader.look() is None


@pytest.mark.parametrize("data", [b"[" * 100_000, b"x", b"{}", b"\xff"])
async def test_unreadable_acls_deny_until_they_are_mended(data: bytes) -> None:
    """One of them may have been a DENY: to pass over it would allow what it denies."""
    session = await opened()
    await write(session, binding("a"))
    await session.set(pattern_path(binding("a").pattern), data)
    reader = AclReader(session)
    assert list(await reader.load()) == [refusing(binding("a").pattern)]
    await session.set(pattern_path(binding("a").pattern), dump_bindings([binding("a")]))
    found = await reader.compare()
    assert found is not None and list(found) == [binding("a")]
    assert await reader.compare() is None


async def test_znodes_that_are_no_acls_are_passed_over() -> None:
    session = await opened()
    await write(session, binding("a"))
    for path in ("/acl/odd", "/acl/literal/FISH", "/acl/literal/TOPIC/%74ides", f"{CHANGES}/odd"):
        await session.create(path, b"x")
    reader = AclReader(session)
    assert list(await reader.load()) == [binding("a")]
    assert await reader.look() is None
    assert await reader.compare() is None


async def test_a_comparison_finds_what_was_changed_by_hand() -> None:
    session = await opened()
    await write(session, binding("a"))
    reader = AclReader(session)
    await reader.load()
    await session.create(pattern_path(binding("b").pattern), dump_bindings([binding("b")]))
    await session.delete(pattern_path(binding("a").pattern))
    assert await reader.look() is None
    found = await reader.compare()
    assert found is not None and list(found) == [binding("b")]


async def test_a_removed_folder_is_an_empty_one() -> None:
    session = await opened()
    await session.delete("/acl/literal/TOPIC")
    await session.delete(CHANGES)
    reader = AclReader(session)
    assert len(await reader.load()) == 0
    assert await reader.look() is None
