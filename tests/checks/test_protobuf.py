"""Generated code that is stale, missing or left over is found (docs/understand/testing.md)."""

from __future__ import annotations

import shutil
from pathlib import Path

from checks import protobuf

ROOT = Path(__file__).resolve().parent.parent.parent


def test_generated_code_that_is_stale_missing_or_left_over_is_found(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    shutil.copytree(ROOT / "strandline/rpc", tmp_path / "strandline/rpc")
    assert protobuf.problems(tmp_path) == []
    rpc = tmp_path / "strandline/rpc"
    (rpc / "gone_pb2.py").write_text("")
    (rpc / "log_pb2.py").write_text("edited by hand")
    (rpc / "admin_pb2.pyi").unlink()
    assert protobuf.problems(tmp_path) == [
        "strandline/rpc/gone_pb2.py: comes from no .proto",
        "strandline/rpc/admin_pb2.pyi: is missing; run make proto",
        "strandline/rpc/log_pb2.py: is not what protoc makes now; run make proto",
    ]
