"""A broker's picture of the ACLs: there before it serves, and behind a change by one watch."""

from __future__ import annotations

import asyncio

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.zookeeper.security.acl_znodes import (
    CHANGE_PREFIX,
    CHANGES,
    dump_bindings,
    dump_change,
    pattern_path,
)
from strandline.adapters.zookeeper.security.pictures import Picture, needed_pictures, quota_picture
from strandline.adapters.zookeeper.security.quota_znodes import (
    QUOTAS,
    dump_limits,
    dump_quota_change,
    entity_child,
)
from strandline.adapters.zookeeper.security.security_watch import SecurityWatch
from strandline.ports import Create
from strandline.security import acls
from strandline.security.acls import AclBinding, PatternType, Permission, ResourcePattern, ResourceType
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.login.authenticator import Authenticator
from strandline.security.login.mechanisms import SCRAM_SHA_512
from strandline.security.principal import Principal
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import Quota, QuotaEntity
from tests.waiting import eventually
from tests.znode_tree import MemorySession, ZnodeTree

READ = acls.Operation.READ
ALICE, LIMITS = QuotaEntity("alice"), {Quota.CONSUMER_BYTE_RATE: 1.0}


def binding(name: str) -> AclBinding:
    pattern = ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL)
    return AclBinding(pattern, Principal("alice"), "*", READ, Permission.ALLOW)


def watched(session: MemorySession, authorizer: Authorizer) -> SecurityWatch:
    no_logins = Authenticator((), bytes, lambda *_: False, None)
    return SecurityWatch(
        session, lambda reader: needed_pictures(reader, authorizer, no_logins), SystemClock()
    )


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
    watch = watched(session, authorizer)
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
    await watched(tree.open_session(), authorizer).open()
    assert known(authorizer) == [binding("a"), binding("b")]
    assert authorizer.version > before


async def test_what_was_changed_by_hand_is_found_by_comparing() -> None:
    tree = ZnodeTree()
    session, authorizer = tree.open_session(), Authorizer(Rules())
    watch = watched(session, authorizer)
    await watch.open()
    await session.create(pattern_path(binding("a").pattern), b"[" * 100_000)
    await watch.compare()
    assert [each.permission for each in known(authorizer)] == [Permission.DENY]


async def test_without_an_authorizer_nothing_is_read_or_watched() -> None:
    tree = ZnodeTree()
    session = tree.open_session()
    watch = watched(session, Authorizer(None))
    await watch.open()
    await watch.compare()
    assert list(tree.nodes) == ["/"]
    assert not session.reads


async def test_a_look_and_a_comparison_take_turns() -> None:
    """What one of them has read does not replace what the other has read after it: a revocation would be
    lost."""
    under_way: list[str] = []
    asked = 0

    class Slow:
        async def load(self) -> int:
            return 0

        async def look(self) -> None:
            nonlocal asked
            asked += 1
            under_way.append("look")
            assert under_way == ["look"]
            await asyncio.sleep(0)
            under_way.pop()

        async def compare(self) -> None:
            under_way.append("compare")
            for _ in range(5):
                assert under_way == ["compare"]
                await asyncio.sleep(0)
            under_way.pop()

    pictures = [Picture((), Slow(), lambda _: None)]
    watch = SecurityWatch(ZnodeTree().open_session(), lambda _: pictures, SystemClock())
    await watch.open()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(watch.run())
        comparing = tasks.create_task(watch.compare())
        watch.look_again()
        await comparing
        await eventually(lambda: asked == 1 and not under_way)
        running.cancel()


async def test_a_notice_is_read_once_for_all_pictures() -> None:
    """Each picture takes the notices that are about it."""
    tree = ZnodeTree()
    session, controller = tree.open_session(), tree.open_session()
    authorizer = Authorizer(Rules())
    authenticator = Authenticator((SCRAM_SHA_512,), bytes, lambda *_: False, None)
    quotas = ClientQuotas(lambda _: False, lambda: 0.0, delay_ms_max=1)
    watch = SecurityWatch(
        session,
        lambda reader: [*needed_pictures(reader, authorizer, authenticator), quota_picture(reader, quotas)],
        SystemClock(),
    )
    await watch.open()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(watch.run())
        for name in "ab":
            await write(controller, binding(name))
            await eventually(lambda: binding(name) in known(authorizer))  # noqa: B023
        await controller.create(f"{QUOTAS}/{entity_child(ALICE)}", dump_limits(LIMITS))
        await controller.create(CHANGE_PREFIX, dump_quota_change([ALICE]), sequential=True)
        await eventually(lambda: quotas.quotas.of == {ALICE: LIMITS})
        running.cancel()
    reads = [each for path, each in session.reads.items() if path.startswith(f"{CHANGES}/")]
    assert reads == [1, 1], "after the first notice everything is read instead"
