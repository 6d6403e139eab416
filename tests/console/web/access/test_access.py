"""What stands between the network and the pages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from strandline.config.console import ConsoleSettings
from strandline.config.load import load
from strandline.console.web.access import is_ours
from strandline.errors import SettingsError
from strandline.testing import MemoryCluster
from tests.console.web.browser import FORM, Browser
from tests.console.web.consoles import browser_of


@pytest.fixture(scope="module")
async def browser_of_all() -> AsyncIterator[Browser]:
    async with MemoryCluster(brokers=1) as cluster, browser_of(cluster) as browser:
        yield browser


@pytest.fixture
def browser(browser_of_all: Browser) -> Browser:
    """A browser that was never here."""
    return Browser(browser_of_all.application)


async def test_every_answer_has_a_policy_that_runs_no_script_of_others(browser: Browser) -> None:
    for path in ("/", "/nowhere", "/static/console.css", "/healthz"):
        answer = await browser.get(path)
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe-inline" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_pages_have_no_inline_scripts_or_styles(browser: Browser) -> None:
    page = (await browser.get("/")).text
    assert " style=" not in page and "<style" not in page and "onclick" not in page
    assert page.count("<script") == page.count("<script src=") + page.count('<script type="module" src=')


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8088", "127.0.0.1.evil.example:8088", ""])
async def test_a_page_of_another_site_whose_name_leads_here_gets_nothing(browser: Browser, host: str) -> None:
    """DNS rebinding."""
    browser.host = host
    answer = await browser.get("/")
    assert answer.status == 400 and "host_names" in answer.words


@pytest.mark.parametrize(
    ("listen", "names", "ours", "foreign"),
    [
        ("127.0.0.1:1", "", ("localhost", "127.0.0.1:5", "[::1]:9"), ("192.0.2.7", "a.example")),
        ("0.0.0.0:1", "", ("localhost:2", "192.0.2.7:3", "[2001:db8::1]"), ("a.example", "")),
        ("a.example:1", "b.example, C.example", ("A.example:1", "b.example.", "c.example"), ("d.example",)),
    ],
)
def test_the_hosts_that_mean_this_console(
    listen: str, names: str, ours: tuple[str, ...], foreign: tuple[str, ...]
) -> None:
    settings = load(ConsoleSettings, listen=listen, host_names=names, allow_insecure=True)
    assert [host for host in (*ours, *foreign) if is_ours(host, settings)] == list(ours)


@pytest.mark.parametrize("host", ["localhost:8088", "127.0.0.1", "[::1]:8088"])
async def test_loopback_has_several_names(browser: Browser, host: str) -> None:
    browser.host = host
    assert (await browser.get("/")).status == 200


async def test_a_form_of_another_site_is_refused(browser: Browser) -> None:
    refused: tuple[dict[str, str], ...] = (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
    )
    for headers in refused:
        answer = await browser.post("/", None, **headers)
        assert answer.status == 403 and "another site" in answer.words


async def test_a_form_without_the_browsers_token_is_refused(browser: Browser) -> None:
    await browser.get("/")
    other = Browser(browser.application)
    for body in (b"", b"csrf=", f"csrf={await other.csrf()}".encode(), b"csrf=%ff"):
        answer = await browser.send("POST", "/", body, headers={"content_type": FORM})
        assert answer.status in (400, 403), answer.words
    assert (await browser.post("/")).status == 405  # the overview takes no form: it came that far


async def test_bodies_are_bounded(browser: Browser) -> None:
    body = b"csrf=" + b"a" * load(ConsoleSettings).request_bytes_max
    assert (await browser.send("POST", "/", body, headers={"content_type": FORM})).status == 413
    lied = await browser.send("POST", "/", body, headers={"content_type": FORM, "content_length": "5"})
    assert lied.status == 413
    assert (await browser.send("POST", "/", b"", headers={"content_length": "many"})).status == 413


async def test_errors_are_pages_without_traces(browser: Browser) -> None:
    answer = await browser.get("/nowhere")
    assert answer.status == 404 and "Traceback" not in answer.text
    assert (await browser.send("DELETE", "/")).status == 405
    assert (await browser.get("/?part=nothing")).status == 404
    assert (await browser.get("/api/nothing")).json == {"error": "Not Found"}


async def test_the_page_and_its_part(browser: Browser) -> None:
    assert "<html" in (await browser.get("/")).text
    part = await browser.get("/?part=cluster")
    assert part.status == 200 and "<html" not in part.text and "Brokers" in part.text


async def test_health_needs_nothing(browser: Browser) -> None:
    assert (await browser.get("/healthz")).body == b"ok\n"


@pytest.mark.parametrize("listen", ["0.0.0.0:8088", "192.0.2.7:8088", "[::]:8088", "console.example:80"])
def test_an_address_for_others_needs_authentication(listen: str) -> None:
    with pytest.raises(SettingsError, match="anyone who reaches it could read"):
        load(ConsoleSettings, listen=listen)
    with pytest.raises(SettingsError, match="plaintext"):
        load(ConsoleSettings, listen=listen, login=True)
    load(ConsoleSettings, listen=listen, allow_insecure=True)


@pytest.mark.parametrize("listen", ["8088", "localhost:", "localhost:99999", ":8088"])
def test_an_address_is_a_host_and_a_port(listen: str) -> None:
    with pytest.raises(SettingsError, match="write host:port"):
        load(ConsoleSettings, listen=listen)
