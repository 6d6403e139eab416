"""What `make bench-guard` measures: the files of two states, and no other (PERFORMANCE)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from strandline_lab.bench.guard.trees import Repository, UnknownTree

BOT = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *BOT, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with one commit: a module, a link to its folder, a lock file."""
    folder = tmp_path / "repository"
    (folder / "log").mkdir(parents=True)
    (folder / "log" / "code.py").write_text("speed = 1\n")
    (folder / "package").symlink_to("log")
    (folder / "requirements.lock").write_text("one==1\n")
    (folder / ".gitignore").write_text("ignored\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_the_working_tree_has_what_is_not_committed_and_its_index_stays(folder: Path, tmp_path: Path) -> None:
    (folder / "log" / "code.py").write_text("speed = 2\n")
    (folder / "log" / "new.py").write_text("more = True\n")
    (folder / "ignored").write_text("")
    before = git(folder, "status", "--porcelain")
    repository = Repository(folder)
    repository.unpack(repository.tree("main"), tmp_path / "old")
    repository.unpack(repository.working_tree(), tmp_path / "new")
    assert (tmp_path / "old" / "package" / "code.py").read_text() == "speed = 1\n"
    assert (tmp_path / "new" / "package" / "code.py").read_text() == "speed = 2\n"
    assert (tmp_path / "new" / "log" / "new.py").exists()
    assert not (tmp_path / "old" / "log" / "new.py").exists()
    assert not (tmp_path / "new" / "ignored").exists()
    assert list((tmp_path / "old" / "log" / "__pycache__").iterdir()), "bytecode is compiled beforehand"
    assert git(folder, "status", "--porcelain") == before


def test_the_same_state_is_the_same_tree(folder: Path) -> None:
    repository = Repository(folder)
    assert repository.working_tree().id == repository.tree("main").id
    short, whole = (git(folder, "rev-parse", *how, "main").strip() for how in (("--short",), ()))
    names = [repository.tree(revision).name for revision in ("main", short, whole)]
    assert names == [f"main ({short})", short, short]


def test_files_that_differ_are_named(folder: Path) -> None:
    repository = Repository(folder)
    (folder / "requirements.lock").write_text("one==2\n")
    (folder / "log" / "code.py").write_text("speed = 2\n")
    old, new = repository.tree("main"), repository.working_tree()
    assert repository.differing(old, new, ["requirements.lock"]) == ["requirements.lock"]
    assert repository.differing(old, new, ["log", "package"]) == ["log/code.py"]
    assert repository.differing(old, old, ["log"]) == []


def test_a_commit_that_git_does_not_know_is_an_error(folder: Path) -> None:
    with pytest.raises(UnknownTree, match="git knows no commit 'nothing'"):
        Repository(folder).tree("nothing")
