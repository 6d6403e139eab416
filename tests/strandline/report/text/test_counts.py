"""Numbers in sentences."""

from __future__ import annotations

import pytest

from strandline.report.text.counts import counted


@pytest.mark.parametrize(("number", "words"), [(0, "0 processes"), (1, "1 process"), (2, "2 processes")])
def test_one_is_singular_and_any_other_number_plural(number: int, words: str) -> None:
    assert counted(number, "process", "processes") == words
    assert counted(number, "move") == f"{number} move{'' if number == 1 else 's'}"
