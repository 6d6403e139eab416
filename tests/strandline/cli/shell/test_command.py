"""The command line's surface: options, usage, exit status and how failures are said."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from strandline.cli.__main__ import cli
from strandline.cli.records.start import StartType
from strandline.cli.shell.command import Invocation, Root, pass_invocation
from strandline.cli.shell.output import aligned
from strandline.errors import NotEnoughReplicas, SettingsError
from strandline.local.layout import ClusterFile, Layout, MemberFile
from strandline.report.text.records import shown
from strandline_lab.cli.__main__ import cli as laboratory

pytestmark = pytest.mark.usefixtures("logging_as_before")


def invoke(*arguments: str, root: click.Command = cli, **environment: str) -> Result:
    return CliRunner().invoke(root, list(arguments), env={"STRANDLINE_BOOTSTRAP": None, **environment})


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    """A folder without a cluster."""
    return str(tmp_path / "none")


def failing(error: BaseException) -> click.Command:
    """A command line whose one command ends with `error`."""

    @click.group(cls=Root)
    def root() -> None:
        pass

    @root.command()
    def fail() -> None:
        raise error

    return root


def test_help_imports_nothing_heavy() -> None:
    """--help is quick because gRPC, pydantic, rich and the clients are not loaded for it."""
    heavy = "{'grpc', 'pydantic', 'rich', 'uvloop', 'google.protobuf', 'strandline.producer.producer'}"
    script = (
        "import sys; from strandline.cli.__main__ import cli\n"
        "try: cli(['--help'])\n"
        f"finally: print('loaded:', sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, check=True)
    assert "loaded: []" in done.stderr
    assert done.stdout.startswith("Usage: ")


def test_each_command_of_the_contract_exists() -> None:
    families: dict[str, list[str]] = {
        "topic": ["create", "list", "describe", "alter", "delete"],
        "verify": ["produce", "consume"],
        "group": ["list", "describe", "reset-offsets", "delete"],
        "log": ["dump", "verify"],
    }
    for name in ("up", "down", "status", "demo", "produce", "consume"):
        assert invoke(name, "--help").exit_code == 0
    for family, names in families.items():
        for name in names:
            assert invoke(family, name, "--help").exit_code == 0


@pytest.mark.parametrize("name", ["chaos", "perf", "simulate"])
def test_a_command_that_has_moved_names_the_one_to_use(name: str) -> None:
    result = invoke(name, "--help")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"'strandline {name}' has moved: use 'strandline-lab {name}'" in result.stderr


def test_the_laboratory_has_commands_of_its_own() -> None:
    assert {*laboratory.commands} == {"chaos", "perf", "simulate"}
    perf = laboratory.commands["perf"]
    assert isinstance(perf, click.Group)
    assert {*perf.commands} == {"produce", "consume", "latency", "failover", "rebalance"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["topic", "create"],
        ["topic", "create", "t", "--partitions", "0"],
        ["topic", "create", "t", "--config", "no-equals-sign"],
        ["topic", "create", "t", "--config", "a=1", "--config", "a=2"],
        ["topic", "alter", "t"],
        ["produce", "t", "--acks", "2"],
        ["consume", "t", "--from", "yesterday"],
        ["consume", "t", "--from", "9223372036854775808"],
        ["consume", "t", "--from", "9" * 5000],
        ["consume", "t", "--from", "0001-01-01"],
        ["consume", "t", "--from", "1969-12-31T23:59:59.999+00:00"],
        ["consume", "t", "--client-id", "c"],
        ["consume", "t", "--rebalance-protocol", "eager"],
        ["consume", "t", "--group", "g", "--rebalance-protocol", "lazy"],
        ["consume", "t", "--group-protocol", "consumer"],
        ["consume", "t", "--group", "g", "--group-protocol", "new"],
        ["consume", "t", "--group", "g", "--group-protocol", "consumer", "--session-timeout-ms", "9000"],
        ["consume", "t", "--group", "g", "--group-protocol", "consumer", "--rebalance-protocol", "eager"],
        ["consume", "t", "--group", "g", "--partition", "0"],
        ["consume", "t", "--group", "g", "--from", "5"],
        ["verify", "consume", "t", "--group", "g", "--from", "5"],
        ["verify", "consume", "t", "--by-hand"],
        ["verify", "consume", "t", "--group", "g", "--block", "1"],
        ["verify", "consume", "t", "--group", "g", "--max-poll-interval-ms", "1"],
        ["group", "describe"],
        ["group", "delete"],
        ["group", "reset-offsets", "g", "--to", "latest"],
        ["group", "reset-offsets", "g", "--topic", "t"],
        ["group", "reset-offsets", "g", "--topic", "t:x", "--to", "latest"],
        ["group", "reset-offsets", "g", "--topic", "t", "--to", "-x"],
        ["topic", "create", "x\udcff"],
        ["topic", "create", "t", "--config", "a=\udcff"],
        ["topic", "delete", "t", "x\udcff"],
        ["produce", "t", "--key-separator", "\udcff"],
        ["verify", "produce", "t", "--value-prefix", "\udcff"],
        ["status", "--bootstrap", "\udcff:1"],
        ["status", "-o", "xml"],
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(arguments: list[str]) -> None:
    """Exit status 0 only on success."""
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments", [["topic", "list"], ["consume", "t"], ["produce", "t"], ["status"], ["down"]]
)
def test_without_a_cluster_one_sentence_says_what_to_do(arguments: list[str], nowhere: str) -> None:
    """The local cluster is meant unless another is named."""
    result = invoke(*arguments, "--dir", nowhere)
    assert result.exit_code == 1
    assert "strandline up" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [["up"], ["topic", "list"], ["produce", "t"], ["status"], ["down"]])
def test_a_damaged_cluster_is_one_sentence_that_says_what_to_do(arguments: list[str], tmp_path: Path) -> None:
    """Also where a plain file has the folder's name."""
    (tmp_path / "cluster.json").write_text('{"brokers": 3')
    (tmp_path / "file").write_text("")
    for home, said in ((tmp_path, "strandline up"), (tmp_path / "file", "is not a folder")):
        result = invoke(*arguments, STRANDLINE_DIR=str(home))
        assert result.exit_code == 1
        assert said in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert "pydantic" not in result.stderr
        assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments", [["topic", "list"], ["produce", "t"], ["consume", "t"], ["topic", "create", "t"]]
)
def test_with_all_brokers_down_the_hint_is_to_start_them(arguments: list[str], tmp_path: Path) -> None:
    """As `status` says it, and at once."""
    Layout(tmp_path).write(
        ClusterFile(zookeeper=MemberFile(id=1, port=1), controllers=[], brokers=[MemberFile(id=1, port=2)])
    )
    result = invoke(*arguments, "--dir", str(tmp_path))
    assert result.exit_code == 1
    assert "no broker runs" in result.stderr
    assert "strandline up" in result.stderr


def test_without_any_row_a_table_has_no_heading() -> None:
    """The error alone is shown where no broker answers."""
    result = invoke("status", "--bootstrap", "foo")
    assert (result.exit_code, result.stdout) == (1, "")


@pytest.mark.parametrize("closed", ["<&-", "<&- 2>&-"])
def test_a_closed_standard_input_is_reported_without_a_crash(closed: str) -> None:
    """Exit status 1 for a failure, also where the event loop would get the stream's number."""
    for command, said in (("produce", "standard input is closed"), ("topic describe", "127.0.0.1:1")):
        script = f"{sys.executable} -m strandline {command} t --bootstrap 127.0.0.1:1 {closed}"
        done = subprocess.run(["bash", "-c", script], text=True, capture_output=True, check=False)
        assert done.returncode == 1
        assert said in done.stderr or "2>&-" in closed


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (NotEnoughReplicas("1 of 2 in sync"), 1, "error: 1 of 2 in sync"),
        (ExceptionGroup("tasks", [SettingsError("port = x")]), 1, "error: port = x"),
        (FileNotFoundError(2, "No such file", "f"), 1, "error: [Errno 2] No such file: 'f'"),
        (KeyError("k"), 1, "error: KeyError: 'k' (a bug in strandline; --debug shows where)"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_failure_is_one_sentence_and_a_status(error: BaseException, status: int, said: str) -> None:
    """A traceback is shown on --debug only."""
    result = invoke("fail", root=failing(error))
    assert (result.exit_code, result.stderr) == (status, f"{said}\n")


def test_debug_shows_the_traceback_wherever_it_stands() -> None:
    """Common options may stand before or after the command."""
    for arguments in (["fail", "--debug"], ["--debug", "fail"]):
        result = invoke(*arguments, root=failing(SettingsError("port = x")))
        assert "Traceback" in result.stderr
        assert result.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "meant"),
    [
        (["--bootstrap", "a:1", "--dir", "d"], {"STRANDLINE_BOOTSTRAP": "b:2"}, ("a:1", "d")),
        (["--dir", "d"], {"STRANDLINE_BOOTSTRAP": "b:2", "STRANDLINE_DIR": "e"}, (None, "d")),
        ([], {"STRANDLINE_BOOTSTRAP": "b:2", "STRANDLINE_DIR": "e"}, ("b:2", "e")),
        ([], {"STRANDLINE_DIR": "e"}, (None, "e")),
        ([], {}, (None, ".strandline")),
    ],
)
def test_the_cluster_that_is_nearest_to_the_user_is_meant(
    arguments: list[str], environment: dict[str, str], meant: tuple[str | None, str]
) -> None:
    """--bootstrap, --dir, STRANDLINE_BOOTSTRAP, STRANDLINE_DIR, ./.strandline."""

    @click.group(cls=Root)
    def root() -> None:
        pass

    @root.command()
    @pass_invocation
    def which(invocation: Invocation) -> None:
        invocation.out.emit({"bootstrap": invocation.named_bootstrap(), "dir": str(invocation.directory)})

    result = invoke("which", *arguments, root=root, **environment)
    assert json.loads(result.stdout) == {"bootstrap": meant[0], "dir": meant[1]}


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("42", 42),
        (str(2**63 - 1), 2**63 - 1),
        ("2026-11-20T14:30:00+00:00", datetime.fromisoformat("2026-11-20T14:30:00+00:00")),
    ],
)
def test_reading_begins_at_a_name_an_offset_or_a_time(text: str, start: object) -> None:
    """`--from earliest|latest|OFFSET|TIME`."""
    assert StartType().convert(text, None, None) == start


def test_bytes_that_are_not_text_are_marked_as_base64() -> None:
    """Shape of `consume -o json`."""
    assert shown("key", None) == {"key": None}
    assert shown("key", "é".encode()) == {"key": "é"}
    assert shown("key", b"\xff") == {"key": "/w==", "key_encoding": "base64"}


def test_a_plain_table_is_aligned_and_shows_unknown_values_as_a_dash() -> None:
    """Output for people; lists as 1,2,3, unknown values as -."""
    assert aligned(("topic", "isr"), [["t", [1, 2]], ["longer", None]]) == [
        "topic   isr",
        "t       1,2",
        "longer  -",
    ]


def test_bash_completes_commands_and_options_as_the_page_says() -> None:
    """docs/use/cli.md, "Completion": bash runs its line, and then the function that it made."""
    page = (Path(__file__).parents[4] / "docs" / "use" / "cli.md").read_text()
    (line,) = re.findall(r'^eval "\$\(_STRANDLINE_COMPLETE=bash_source strandline\)"$', page, re.MULTILINE)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for words, expected in (("group ", "reset-offsets"), ("group list --l", "--lag")):
        typed = ["strandline", *words.split(" ")]
        script = f"""
            {line}
            COMP_WORDS=({" ".join(map(shlex.quote, typed))}) COMP_CWORD={len(typed) - 1}
            _strandline_completion strandline
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(
            ["bash", "--norc", "-c", script],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert expected in done.stdout.splitlines(), done
