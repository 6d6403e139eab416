"""Checks rules about text and numbers: sizes, forbidden patterns, no sleep in a test."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

FILE_LINES_MAX = 500
FOLDER_FILES_MAX = 15
FUNCTION_LINES_MAX = 70

GENERATED = "strandline/rpc/"
THIS = "checks/tidy.py"
"""This file contains the patterns, so it is not checked."""

FORBIDDEN = {
    r"\bTODO\b|\bFIXME\b|\bXXX\b": "say it in an issue, or do it",
    r"(?<![\w.*/-])/(home|root|work|Users)/|\.\./shared": "a path of one machine",
    r"https?://[^\s\"']+/simple\b|--(extra-)?index-url|--find-links": "a package registry's host",
    r"\b(DESIGN|CORRECTNESS) §": "the pages have no numbered sections: cite a row of docs/correctness.md",
}
SLEEP = r"\basyncio\.sleep\((?!0\))"
PATCHES = r"\bmonkeypatch\b|\bMonkeyPatch\b|\bunittest\.mock\b"

FORBIDDEN_IN_TESTS = {
    r"\btime\.sleep\(": "wait for a condition with a deadline",
    SLEEP: "wait for a condition with a deadline",
    PATCHES: "put what you would replace behind a port",
    r"@pytest\.mark\.(skip|xfail)\b": "a test that is not run is not a test",
}
CHANNELS = r"\.(in)?secure_channel\(|\.add_(in)?secure_port\("
FORBIDDEN_IN_PRODUCT = {
    CHANNELS: "strandline/adapters/tls/grpc_credentials.py opens it: none is in plaintext by oversight",
}
NO_UTILS = {"utils.py", "common.py", "helpers.py", "misc.py"}

EXCEPTIONS = {
    ("tests/waiting.py", SLEEP): "it is the one that waits with a deadline",
    ("strandline/adapters/tls/grpc_credentials.py", CHANNELS): "it is the one that opens them",
}

PICTURES = "docs/*/pictures/*.png"
"""Those of the pages, which `make docs-pictures` takes."""
RECORDED = "tests/*/data/*.tar.xz"
"""Folders that an earlier version has written."""
BINARY_BYTES_MAX = 150_000

VIRTUAL_TIME = "tests/simulation/"
"""Nothing waits there: a sleep only moves the clock of a simulation."""


def problems(root: Path) -> list[str]:
    """All violations of this module's rules, as `file:line: what`."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        text=True,
        capture_output=True,
        check=True,
    )
    files = [name for name in listed.stdout.splitlines() if not (root / name).is_symlink()]
    found: list[str] = [*crowded(files)]
    for name in sorted(set(listed.stdout.splitlines())):
        path = root / name
        if name == THIS or not path.is_file():
            continue
        if fnmatch(name, PICTURES) or fnmatch(name, RECORDED):
            if (size := path.stat().st_size) > BINARY_BYTES_MAX:
                found.append(f"{name}: has {size:,} bytes, more than {BINARY_BYTES_MAX:,}")
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            found.append(f"{name}: is not text; this tree holds none but source")
            continue
        found += words(name, text)
        if name.endswith(".py") and not name.startswith(GENERATED):
            found += sizes(name, text)
    return found


def crowded(names: list[str]) -> Iterator[str]:
    """Folders with too many files: a folder is a room, with one concern."""
    folders = Counter(str(Path(name).parent) for name in set(names) if not name.startswith(GENERATED))
    for folder, files in sorted(folders.items()):
        if files > FOLDER_FILES_MAX:
            yield f"{folder}: {files} files, more than {FOLDER_FILES_MAX}: make rooms of it"


def words(name: str, text: str) -> Iterator[str]:
    """Forbidden patterns in one file."""
    rules = FORBIDDEN | (FORBIDDEN_IN_TESTS if name.startswith("tests/") else FORBIDDEN_IN_PRODUCT)
    for pattern, advice in rules.items():
        if (name, pattern) in EXCEPTIONS or (pattern == SLEEP and name.startswith(VIRTUAL_TIME)):
            continue
        for match in re.finditer(pattern, text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: {match.group()!r}: {advice}"


def sizes(name: str, text: str) -> Iterator[str]:
    """Files and functions of one module that are too long, and names without a meaning."""
    if Path(name).name in NO_UTILS:
        yield f"{name}: a file is named after its idea"
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{name}: {lines} lines, more than {FILE_LINES_MAX}: split it by idea"
    for node in ast.walk(ast.parse(text, name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield f"{name}:{node.lineno}: {node.name} has {length} lines, more than {FUNCTION_LINES_MAX}"
