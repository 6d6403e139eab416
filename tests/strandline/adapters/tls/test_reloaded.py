"""Certificates are replaced while a process runs (docs/correctness.md, X11)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from strandline.adapters.tls.reloaded import ReloadedPem
from tests.hand_clock import HandClock
from tests.tls_files import LONG_AGO, YESTERDAY, Files, TestAuthority

RELOAD_MS = 1_000


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def put(files: Files, replacement: Files) -> None:
    """Replace a pair as tools do: by renaming."""
    for old, new in ((files.certfile, replacement.certfile), (files.keyfile, replacement.keyfile)):
        draft = old.with_suffix(".draft")
        shutil.copy(new, draft)
        os.replace(draft, old)


def shown(pem: ReloadedPem) -> bytes:
    identity = pem.now().identity
    assert identity is not None
    return identity.chain


def test_new_files_are_used_once_they_were_looked_at(authority: TestAuthority, clock: HandClock) -> None:
    """CORRECTNESS X11."""
    files, renewed = authority.issue("one"), authority.issue("two")
    pem = ReloadedPem(files.client, clock)
    first = pem.now()
    put(files, renewed)
    assert pem.now() is first, "files are looked at once in ssl_reload_ms"
    clock.now_s += RELOAD_MS / 1000
    assert shown(pem) == renewed.certfile.read_bytes()
    assert pem.now() is not first
    assert pem.failures == 0


def test_files_that_cannot_be_used_change_nothing(authority: TestAuthority, clock: HandClock) -> None:
    """CORRECTNESS X11: an expired certificate, half a pair, garbage, nothing."""
    files = authority.issue("one")
    pem = ReloadedPem(files.client, clock, demands_certificates=True)
    first = pem.now()
    expired = authority.issue("late", not_before=LONG_AGO, not_after=YESTERDAY)
    put(files, expired)
    clock.now_s += 1
    assert pem.now() is first
    shutil.copy(authority.issue("two").certfile, files.certfile)
    clock.now_s += 1
    assert pem.now() is first
    files.certfile.write_text("none")
    clock.now_s += 1
    assert pem.now() is first
    files.keyfile.unlink()
    clock.now_s += 1
    assert pem.now() is first
    assert pem.failures == 4
    clock.now_s += 1
    assert pem.now() is first
    assert pem.failures == 4, "the same files are refused once"
    assert pem.complaint() is not None


def test_a_pair_that_is_replaced_one_file_after_the_other_is_used_in_the_end(
    authority: TestAuthority, clock: HandClock
) -> None:
    """CORRECTNESS X11."""
    files, renewed = authority.issue("one"), authority.issue("two")
    pem = ReloadedPem(files.client, clock)
    first = pem.now()
    shutil.copy(renewed.certfile, files.certfile)
    clock.now_s += 1
    assert pem.now() is first
    shutil.copy(renewed.keyfile, files.keyfile)
    clock.now_s += 1
    assert shown(pem) == renewed.certfile.read_bytes()


def test_the_time_until_the_certificate_expires(authority: TestAuthority, clock: HandClock) -> None:
    pem = ReloadedPem(authority.issue("late", not_before=LONG_AGO).client, clock)
    left = pem.expires_in_s()
    assert left is not None and left > 0
    clock.now_s += 10
    assert pem.expires_in_s() == left - 10


def test_a_key_is_used_once_its_mode_is_right(authority: TestAuthority, clock: HandClock) -> None:
    """CORRECTNESS X11: nothing but the mode changes."""
    files, renewed = authority.issue("one"), authority.issue("two")
    pem = ReloadedPem(files.client, clock)
    renewed.keyfile.chmod(0o644)
    put(files, renewed)
    clock.now_s += 1
    assert shown(pem) != renewed.certfile.read_bytes()
    files.keyfile.chmod(0o600)
    clock.now_s += 1
    assert shown(pem) == renewed.certfile.read_bytes()
