"""Where Spark runs is checked before Java starts: that writes a trace, or waits for a minute."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from strandline.errors import SettingsError
from strandline.pipeline.spark.master import check_master


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*]",
        "local[4]",
        "local[ 2 , 4 ]",
        "local[*,3]",
        "local-cluster[2,1,1024]",
        "k8s://https://a:1",
    ],
)
def test_what_spark_knows_is_accepted(master: str) -> None:
    check_master(master, {})


@pytest.mark.parametrize(
    "master",
    [
        "bogus",
        "",
        "local[x]",
        "local[0]",
        "localhost",
        "spark://",
        "spark://host",
        "spark://a:b",
        "mesos://a:5050",
    ],
)
def test_what_spark_does_not_know_is_one_sentence(master: str) -> None:
    with pytest.raises(SettingsError, match=r"^master '.*' is not one that Spark knows: give local\[\*\]"):
        check_master(master, {})


def test_a_standalone_master_has_to_listen() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        host, port = server.getsockname()
        check_master(f"spark://{host}:{port}", {})
        check_master(f"spark://[::1]:1,{host}:1,{host}:{port}", {})
    with pytest.raises(
        SettingsError, match=rf"^no Spark master listens at .*{host}:{port}: Connection refused"
    ):
        check_master(f"spark://{host}:{port}", {})


def test_yarn_needs_its_settings() -> None:
    with pytest.raises(SettingsError, match="set HADOOP_CONF_DIR or YARN_CONF_DIR"):
        check_master("yarn", {})
    check_master("yarn", {"YARN_CONF_DIR": "/etc/hadoop"})
