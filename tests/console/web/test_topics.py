"""The pages of topics: the list, and one topic with its partitions and config."""

from __future__ import annotations

from strandline.testing import MemoryCluster
from tests.console.web.browser import Answer, Browser
from tests.console.web.changes import done, planned
from tests.waiting import eventually


async def opened(browser: Browser, path: str, *words: str) -> Answer:
    """The page, once it has these words: what was seen is a moment old."""
    page = Answer(0, {}, b"")

    async def is_there() -> bool:
        nonlocal page
        page = await browser.get(path)
        return all(each in page.words for each in words)

    await eventually(is_there, what=f"{path} has {words}")
    return page


async def test_topics_are_found_by_name_and_come_in_pages(cluster: MemoryCluster, changing: Browser) -> None:
    async with cluster.admin() as admin:
        for number in range(101):
            await admin.create_topic(f"many-{number:03}", wait=False)
        await admin.create_topic("other", 2, 3)
    page = await opened(changing, "/topics?text=MANY-", "101 topics")
    assert "many-000" in page.text and "many-100" not in page.text and "other" not in page.words
    assert "1–100 of 101 topics" in page.words
    second = await changing.get("/topics?text=many-&page=2")
    assert "many-100" in second.text and "many-000" not in second.text
    assert "101–101 of 101 topics" in (await changing.get("/topics?text=many-&page=77")).words
    _ = await opened(changing, "/topics?text=other", "1 topic")
    most = await changing.get("/topics?sort=partitions")
    assert most.text.index('href="/topics/other"') < most.text.index('href="/topics/many-000"')
    assert "internal" in most.words and "__state_changes" not in most.text
    assert "__state_changes" in (await changing.get("/topics?internal=1&text=__")).text


async def test_topics_with_problems_are_found(cluster: MemoryCluster, changing: Browser) -> None:
    await cluster.create_topic("ill", partitions=2)
    await cluster.create_topic("well", partitions=1, replication_factor=1)
    victim = next(each for each in cluster.broker_ids if each not in cluster.replicas("well", 0))
    cluster.kill(victim)
    try:
        page = await opened(changing, "/topics?only=under_replicated&text=ll", "2 under-replicated")
        assert 'href="/topics/ill"' in page.text and 'href="/topics/well"' not in page.text
        await opened(changing, "/topics/ill", f"{victim}: not alive", "under-replicated")
    finally:
        cluster.start(victim)


async def test_a_topic_shows_its_partitions(cluster: MemoryCluster, changing: Browser) -> None:
    await cluster.create_topic("shown", partitions=2, config={"retention.ms": "86400000"})
    async with cluster.producer() as producer:
        for number in range(5):
            await (await producer.send("shown", b"v" * 100, partition=1, key=str(number).encode()))
    page = await changing.get("/topics/shown")
    assert "Partitions 2, 3 replicas each" in page.words
    assert page.words.count("leads") == 2 and page.words.count("in sync") >= 4
    assert "86400000 (1 d 0 h) this topic 604800000" in page.words
    assert "min.insync.replicas 2 default for its number of replicas 2" in page.words
    part = await changing.get("/topics/shown?part=partitions")
    assert part.status == 200 and "<html" not in part.text and "<td" in part.text
    assert '<td class="right">5</td>' in part.text


async def test_an_unknown_topic_is_not_found(changing: Browser) -> None:
    answer = await changing.get("/topics/nowhere")
    assert answer.status == 404 and "nowhere" in answer.words
    assert (await changing.get("/topics/%3Cscript%3E")).status == 400


async def test_bad_queries_are_refused(changing: Browser) -> None:
    for query in ("page=0", "page=many", "sort=colour", "only=good", f"text={'a' * 300}"):
        answer = await changing.get(f"/topics?{query}")
        assert answer.status == 400 and query.partition("=")[0] in answer.words


async def test_config_is_altered_and_goes_back_to_its_default(
    cluster: MemoryCluster, changing: Browser
) -> None:
    await cluster.create_topic("altered")
    wanted = {"topic": "altered", "name": "retention.ms", "value": "1000"}
    page = await planned(changing, "alter-topic", wanted)
    assert "604800000 (7 d 0 h), default 1000 (1.0 s), this topic" in page.words
    assert "do not come back" in page.words
    assert "is changed" in (await done(changing, page)).words
    async with cluster.admin() as admin:

        async def config() -> dict[str, str]:
            return dict((await admin.describe_topics(["altered"]))[0].config)

        async def is_set() -> bool:
            return await config() == {"retention.ms": "1000"}

        await eventually(is_set, what="it is set")
        default = {"topic": "altered", "name": "retention.ms", "unset": 1}
        page = await planned(changing, "alter-topic", default)
        assert "1000 (1.0 s), this topic 604800000 (7 d 0 h), default" in page.words
        await done(changing, page)

        async def is_unset() -> bool:
            return not await config()

        await eventually(is_unset, what="it is unset")
