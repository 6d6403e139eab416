"""Logins end: by age, and for further ones."""

from __future__ import annotations

from strandline import Admin
from strandline.console.web.admins import Connection
from strandline.console.web.sessions import Sessions
from strandline.testing import MemoryCluster
from tests.hand_clock import HandClock

ENDED: list[str] = []


async def begin(sessions: Sessions, browser: str, admin: Admin, user: str | None = None) -> None:
    async def stop() -> None:
        ENDED.append(browser)

    await sessions.begin(browser, user or browser, Connection("nowhere:1"), admin, stop)


async def test_a_login_ends_at_its_age_and_a_further_one_ends_the_idlest(cluster: MemoryCluster) -> None:
    """What a session alone uses ends with it, once."""
    clock = HandClock()
    sessions = Sessions(2, 100.0, clock)
    ENDED.clear()
    admin = cluster.admin()
    await begin(sessions, "a", admin)
    clock.now_s += 10
    await begin(sessions, "b", admin)
    clock.now_s += 10
    assert sessions.find("a") is not None and sessions.find("unknown") is None
    await begin(sessions, "c", admin)
    assert (ENDED, sessions.find("b")) == (["b"], None)
    clock.now_s += 80
    assert sessions.find("a") is None and sessions.find("c") is not None
    await sessions.end("c")
    await sessions.end("c")
    await sessions.end_all()
    assert ENDED == ["b", "c", "a"]


async def test_a_user_that_logs_in_again_and_again_logs_no_other_one_out(cluster: MemoryCluster) -> None:
    sessions, admin = Sessions(3, 100.0, HandClock()), cluster.admin()
    ENDED.clear()
    await begin(sessions, "a", admin, "alice")
    for number in range(5):
        await begin(sessions, f"m{number}", admin, "mallory")
    await begin(sessions, "b", admin, "bob")
    assert ENDED == ["m0", "m1", "m2", "m3"]
    assert sessions.find("a") is not None and sessions.find("b") is not None
    await sessions.end_all()
