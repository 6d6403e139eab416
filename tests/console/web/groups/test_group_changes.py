"""Groups are reset and deleted by the pages: shown first, done once, refused while there are members."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest

from strandline import Admin
from strandline.errors import GroupIdNotFound
from strandline.ids import TopicPartition
from strandline.testing import MemoryCluster
from tests.console.web.browser import Browser
from tests.console.web.changes import done, hidden, planned
from tests.console.web.consoles import browser_of
from tests.waiting import eventually

RECORDS = 5
PLACES = [TopicPartition("orders", number) for number in range(2)]


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1) as cluster:
        await cluster.create_topic("orders", partitions=2)
        async with cluster.producer() as producer:
            for number in range(RECORDS):
                for place in PLACES:
                    await producer.send_and_wait(
                        "orders", b"x", partition=place.partition, timestamp_ms=1_000 * number
                    )
        yield cluster


@pytest.fixture(scope="module")
async def admin(cluster: MemoryCluster) -> AsyncIterator[Admin]:
    async with cluster.admin() as admin:
        yield admin


@pytest.fixture(scope="module")
async def browser(cluster: MemoryCluster) -> AsyncIterator[Browser]:
    async with browser_of(cluster, allow_changes=True) as browser:
        yield browser


async def commit(admin: Admin, group: str, *offsets: int) -> None:
    await admin.alter_group_offsets(group, dict(zip(PLACES, offsets, strict=False)))


async def offsets(admin: Admin, group: str) -> list[int]:
    return [at.offset for at in (await admin.group_offsets(group)).values()]


@pytest.mark.parametrize(
    ("fields", "became"),
    [
        ({"to": "earliest"}, [0, 0]),
        ({"to": "latest"}, [RECORDS, RECORDS]),
        ({"to": "offset", "value": "3"}, [3, 3]),
        ({"to": "offset", "value": "9"}, [RECORDS, RECORDS]),
        ({"to": "time", "value": "1970-01-01T00:00:02"}, [2, 2]),
        ({"to": "shift", "value": "-1"}, [1, 2]),
        ({"to": "shift", "value": "+1"}, [3, 4]),
        ({"to": "earliest", "topic": "orders", "partitions": "1"}, [2, 0]),
    ],
)
async def test_offsets_are_reset_as_it_was_shown(
    admin: Admin, browser: Browser, fields: Mapping[str, str], became: list[int]
) -> None:
    await commit(admin, "reset", 2, 3)
    page = await planned(browser, "reset-offsets", {"group": "reset", **fields})
    assert "Nothing is done yet" in page.words
    for place, old, new in zip(PLACES, [2, 3], became, strict=True):
        if "partitions" not in fields or str(place.partition) == fields["partitions"]:
            assert f"orders {place.partition} {old} {new}" in page.words
    assert await offsets(admin, "reset") == [2, 3]
    outcome = await done(browser, page)
    assert "The offsets of group reset" in outcome.words
    assert "rows=group" in outcome.text
    assert await offsets(admin, "reset") == became


async def test_a_reset_is_done_once(admin: Admin, browser: Browser) -> None:
    await commit(admin, "once", 2, 2)
    page = await planned(browser, "reset-offsets", {"group": "once", "to": "shift", "value": "1"})
    await done(browser, page)
    await done(browser, page)
    assert await offsets(admin, "once") == [3, 3]


async def test_a_commit_meanwhile_shows_the_effect_anew(admin: Admin, browser: Browser) -> None:
    await commit(admin, "busy", 2, 2)
    page = await planned(browser, "reset-offsets", {"group": "busy", "to": "shift", "value": "1"})
    await commit(admin, "busy", 4, 2)
    anew = await done(browser, page)
    assert "Nothing was done" in anew.words
    assert await offsets(admin, "busy") == [4, 2]
    await done(browser, anew)
    assert await offsets(admin, "busy") == [5, 3]


@pytest.mark.parametrize("kind", ["reset-offsets", "delete-group"])
async def test_a_group_with_members_is_refused_in_the_clusters_words(
    cluster: MemoryCluster, admin: Admin, browser: Browser, kind: str
) -> None:
    async with cluster.consumer(group_id=f"live-{kind}", client_id="web-1") as member:
        member.subscribe(["orders"])
        await eventually(member.assignment)
        await member.commit({PLACES[0]: 1})
        answer = await browser.post(f"/changes/{kind}/plan", {"group": f"live-{kind}", "to": "earliest"})
        assert answer.status == 400
        assert "stop them first, they would go on as if nothing had happened" in answer.words
        assert "(client web-1 at" in answer.words


async def test_a_member_that_joins_after_the_plan_was_shown_is_not_overruled(
    cluster: MemoryCluster, admin: Admin, browser: Browser
) -> None:
    await commit(admin, "joins", 2, 2)
    page = await planned(browser, "reset-offsets", {"group": "joins", "to": "earliest"})
    async with cluster.consumer(group_id="joins", enable_auto_commit=False) as member:
        member.subscribe(["orders"])
        await eventually(member.assignment)
        outcome = await done(browser, page)
        assert "stop them first" in outcome.words
        assert await offsets(admin, "joins") == [2, 2]


async def test_a_group_is_deleted_once_its_name_was_typed(admin: Admin, browser: Browser) -> None:
    name = " <b>gone</b>/.. "
    await commit(admin, name, 1, 1)
    page = await planned(browser, "delete-group", {"group": name})
    assert "Type delete to confirm" in page.words
    assert "<b>gone" not in page.text
    wrong = await browser.post("/changes/do", {**hidden(page), "typed": "no"})
    assert wrong.status == 400
    assert "is deleted with its offsets" in (await done(browser, page, typed="delete")).words
    with pytest.raises(GroupIdNotFound):
        await admin.describe_group(name)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"to": "soon"}, "give one of earliest, latest"),
        ({"to": "offset", "value": "-1"}, "a whole number from 0"),
        ({"to": "time", "value": "17"}, "a time from 1970 on"),
        ({"to": "time", "value": "+5"}, "a time from 1970 on"),
        ({"to": "earliest", "partitions": "1"}, "give the topic that has them"),
        ({"to": "earliest", "topic": "orders", "partitions": "0,7"}, "there is no 7"),
        ({"to": "earliest", "topic": "orders", "partitions": "3-1"}, "runs backwards"),
        ({"to": "earliest", "topic": "nowhere"}, "nowhere"),
        ({"group": "", "to": "earliest"}, "group has 0 characters"),
        ({"group": "nobody", "to": "earliest"}, "group nobody is not known"),
    ],
)
async def test_a_wrong_request_says_what_to_give(
    admin: Admin, browser: Browser, fields: Mapping[str, str], words: str
) -> None:
    await commit(admin, "asked", 1, 1)
    answer = await browser.post("/changes/reset-offsets/plan", {"group": "asked", **fields})
    assert answer.status in (400, 404), answer.words
    assert words in answer.words


async def test_without_leave_there_are_no_forms_and_the_server_refuses(
    cluster: MemoryCluster, admin: Admin, browser: Browser
) -> None:
    await commit(admin, "kept", 1, 1)
    assert 'action="/changes/reset-offsets/plan"' in (await browser.get("/groups/kept")).text
    async with browser_of(cluster) as other:
        assert "/changes/" not in (await other.get("/groups/kept")).text
        for kind in ("reset-offsets", "delete-group"):
            answer = await other.post(f"/changes/{kind}/plan", {"group": "kept", "to": "latest"})
            assert answer.status == 403
            assert "--allow-changes" in answer.words
    assert await offsets(admin, "kept") == [1, 1]
