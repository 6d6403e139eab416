"""docs/use/streams.md: the code that describes an application runs as it stands there, block after block."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import strandline.streams
from strandline.streams.topology.topology import Topology

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "use" / "streams.md").read_text()
DESCRIBING = PAGE[PAGE.index("## Describing an application") : PAGE.index("## How tasks run")]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", DESCRIBING, re.MULTILINE | re.DOTALL)


def test_the_code_of_the_page_runs_and_prints_what_it_says() -> None:
    printed = io.StringIO()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(printed):
        for language, code in BLOCKS:
            if language == "python":
                exec(compile(code, "docs/use/streams.md", "exec"), names)
    assert printed.getvalue() == "".join(text for language, text in BLOCKS if language == "text")
    topology = names["topology"]
    assert isinstance(topology, Topology)
    assert [part.sinks for part in topology.build("interests")] == [{"interests"}, {"large-payments"}]


def test_the_page_has_every_public_name() -> None:
    assert [name for name in strandline.streams.__all__ if not re.search(rf"\b{name}\b", PAGE)] == []
