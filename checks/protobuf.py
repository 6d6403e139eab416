"""Checks that the generated code is what the pinned protoc makes of proto/."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

OUTPUTS = ("python", "grpc_python", "mypy", "mypy_grpc")


def generated(root: Path) -> dict[Path, bytes]:
    """The files that protoc generated under a folder, by path."""
    found = (path for path in root.rglob("*_pb2*") if path.suffix in (".py", ".pyi"))
    return {path.relative_to(root): path.read_bytes() for path in found}


def problems(root: Path) -> list[str]:
    """Generated files that are stale, missing, or have no .proto."""
    sources = sorted((root / "proto").rglob("*.proto"))
    with tempfile.TemporaryDirectory() as made:
        protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", "proto"]
        protoc += [f"--{output}_out={made}" for output in OUTPUTS]
        protoc += [str(source.relative_to(root)) for source in sources]
        # protoc looks for mypy-protobuf's plugins on PATH; they are beside the interpreter.
        plugins = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        done = subprocess.run(
            protoc, cwd=root, env={"PATH": plugins}, text=True, capture_output=True, check=False
        )
        if done.returncode != 0:
            return done.stderr.splitlines()
        fresh = generated(Path(made))
    committed = {
        Path("strandline", path): content for path, content in generated(root / "strandline").items()
    }
    found = [f"{path}: comes from no .proto" for path in sorted(committed.keys() - fresh.keys())]
    for path, content in sorted(fresh.items()):
        if path not in committed:
            found.append(f"{path}: is missing; run make proto")
        elif committed[path] != content:
            found.append(f"{path}: is not what protoc makes now; run make proto")
    return found
