"""Whom a member speaks to in which protocol, while members change theirs (docs/run/security.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.tls.peers import MixedMembers
from strandline.adapters.tls.reloaded import ReloadedPem
from strandline.vocabulary.metadata import Endpoint
from tests.tls_files import TestAuthority


@pytest.mark.parametrize("by_default", [False, True])
def test_a_member_is_spoken_to_as_it_last_said(tmp_path: Path, by_default: bool) -> None:
    """CORRECTNESS X17: one that is not known yet is spoken to in the process's own protocol."""
    pem = ReloadedPem(TestAuthority(tmp_path).issue().client, SystemClock())
    members = MixedMembers(pem, encrypted_by_default=by_default)
    assert members.pem_of("b1:9092") is (pem if by_default else None)
    for encrypted in (False, True, False):
        members.heard_of(Endpoint(1, "b1", 9092, encrypted=encrypted))
        assert members.pem_of("b1:9092") is (pem if encrypted else None)
    assert members.pem_of("b2:9092") is (pem if by_default else None)
