"""`strandline security ca` makes certificates that brokers and clients take (docs/correctness.md, X10)."""

from __future__ import annotations

import stat
from pathlib import Path

from click.testing import CliRunner

from strandline.adapters.tls.pem import read_pem
from strandline.cli.__main__ import cli
from tests.tls_files import Files


def ca(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(cli, ["security", "ca", *arguments])
    assert result.exit_code == status, result.output
    return result.output


def files(folder: Path, name: str) -> Files:
    return Files(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")


def test_certificates_of_an_authority_are_taken(tmp_path: Path) -> None:
    """CORRECTNESS X10."""
    folder = tmp_path / "ca"
    ca("create", str(folder))
    ca("issue", str(folder), "broker-1", "--host", "broker-1.example", "--host", "127.0.0.1")
    ca("issue", str(folder), "alice", "--days", "3")
    served = read_pem(files(folder, "broker-1").client, demands_certificates=True).identity
    shown = read_pem(files(folder, "alice").client).identity
    assert served is not None and shown is not None
    assert served.certificate.hosts == {"broker-1.example", "127.0.0.1"}
    assert shown.certificate.expires_at_ms < served.certificate.expires_at_ms
    for key in folder.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_certificate_is_renewed_and_an_authority_is_not(tmp_path: Path) -> None:
    ca("create", str(tmp_path / "ca"))
    ca("issue", str(tmp_path / "ca"), "alice")
    before = (tmp_path / "ca" / "alice.pem").read_bytes()
    ca("issue", str(tmp_path / "ca"), "alice")
    assert (tmp_path / "ca" / "alice.pem").read_bytes() != before
    assert "has an authority already" in ca("create", str(tmp_path / "ca"), status=1)


def test_names_that_are_no_file_names_are_refused(tmp_path: Path) -> None:
    ca("create", str(tmp_path / "ca"))
    for name in ("../alice", "ca", "", "a b"):
        assert "cannot be the name of files" in ca("issue", str(tmp_path / "ca"), name, status=2)
