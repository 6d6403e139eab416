"""A broker's picture of the ACLs: there before it serves, and behind a change by one watch."""

from __future__ import annotations

import asyncio

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.zookeeper.security_znodes import (
    CHANGE_PREFIX,
    dump_bindings,
    dump_change,
    pattern_path,
)
from strandline.broker.security.acl_watch import AclWatch
from strandline.ports import Create
from strandline.security import acls
from strandline.security.acls import AclBinding, PatternType, Permission, ResourcePattern, ResourceType
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.principal import Principal
from tests.waiting import eventually
from tests.znode_tree import MemorySession, ZnodeTree

READ = acls.Operation.READ


def binding(name: str) -> AclBinding:
    pattern = ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL)
    return AclBinding(pattern, Principal("alice"), "*", READ, Permission.ALLOW)


async def write(session: MemorySession, of: AclBinding) -> None:
    await session.multi(
        [
            Create(pattern_path(of.pattern), dump_bindings([of])),
            Create(CHANGE_PREFIX, dump_change([of.pattern]), sequential=True),
        ]
    )


def known(authorizer: Authorizer) -> list[AclBinding]:
    assert authorizer.acls is not None
    return list(authorizer.acls)


async def test_a_change_is_taken_and_the_last_picture_outlives_its_session() -> None:
    """While ZooKeeper is away the broker continues with it; the next session begins with another."""
    tree = ZnodeTree()
    session, controller = tree.open_session(), tree.open_session()
    authorizer = Authorizer(Rules())
    watch = AclWatch(session, authorizer, SystemClock())
    await watch.open()
    assert known(authorizer) == []
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(watch.run())
        await write(controller, binding("a"))
        await eventually(lambda: known(authorizer) == [binding("a")])
        running.cancel()
    session.expire()
    await write(controller, binding("b"))
    assert known(authorizer) == [binding("a")]
    before = authorizer.version
    await AclWatch(tree.open_session(), authorizer, SystemClock()).open()
    assert known(authorizer) == [binding("a"), binding("b")]
    assert authorizer.version > before


async def test_what_was_changed_by_hand_is_found_by_comparing() -> None:
    tree = ZnodeTree()
    session, authorizer = tree.open_session(), Authorizer(Rules())
    watch = AclWatch(session, authorizer, SystemClock())
    await watch.open()
    await session.create(pattern_path(binding("a").pattern), b"[" * 100_000)
    await watch.compare()
    assert [each.permission for each in known(authorizer)] == [Permission.DENY]


async def test_without_an_authorizer_nothing_is_read_or_watched() -> None:
    tree = ZnodeTree()
    session = tree.open_session()
    watch = AclWatch(session, Authorizer(None), SystemClock())
    await watch.open()
    await watch.compare()
    assert list(tree.nodes) == ["/"]
    assert not session.reads
