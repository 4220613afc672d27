"""Which of several machines this is: from what was typed, and the addresses that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist import options, runner
from nbdist.errors import UsageMistake
from nbdist.runner.nodes import LINK_KEY, Nodes, find_nodes, link_key

HERE = {"127.0.0.1", "10.0.0.2", "192.168.7.5"}
NAMES = {"node0": "10.0.0.1", "node1": "10.0.0.2"}


def found(line: str) -> Nodes:
    return find_nodes(options.parse(line), own=lambda: HERE, resolve=lambda name: NAMES.get(name, name))


@pytest.mark.parametrize(
    ("line", "rank", "master"),
    [
        pytest.param("--nodes 1 --node-rank 0 --master 10.0.0.9:1234", 0, "", id="one"),
        pytest.param("--ips 127.0.0.1", 0, "", id="a list of one"),
        pytest.param("--nodes 2 --node-rank 1 --master 10.0.0.1:1234", 1, "10.0.0.1:1234", id="said"),
        pytest.param("--nodes 3 --node-rank 2 --master node0", 2, "10.0.0.1:29500", id="by a name"),
        pytest.param("--nodes 2 --master 10.0.0.2:1234", 0, "10.0.0.2:1234", id="its own address"),
        pytest.param("--nodes 2 --master 10.0.0.1:1234", 1, "10.0.0.1:1234", id="the other of two"),
        pytest.param("--ips 10.0.0.1,10.0.0.2", 1, "10.0.0.1:29500", id="its place in a list"),
        pytest.param("--ips node0,node1,10.0.0.3", 1, "10.0.0.1:29500", id="in a list of names"),
        pytest.param("--ips 10.0.0.2,10.0.0.1 --start_port 99", 0, "10.0.0.2:99", id="with a port"),
        pytest.param("--nodes 2 --node-rank 0 --master 127.0.0.1:9", 0, "127.0.0.1:9", id="on one machine"),
    ],
)
def test_a_machine_finds_its_place(line: str, rank: int, master: str) -> None:
    nodes = found(line)

    assert (nodes.rank, nodes.master) == (rank, master)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param(
            "--ips 10.0.0.1,10.0.0.3", "none is of this machine, which has 10.0.0.2", id="not listed"
        ),
        pytest.param("--ips 10.0.0.2,192.168.7.5", "several are of this machine", id="listed twice"),
        pytest.param("--nodes 3 --master 10.0.0.1:9", "--node-rank 0  on the one that has 10", id="of three"),
        pytest.param("--nodes 2 --master 127.0.0.1:9", "which of them is this machine?", id="both on one"),
        pytest.param(
            "--nodes 2 --node-rank 0 --master 10.0.0.1:9", "that is no address of this machine", id="not 0"
        ),
        pytest.param(
            "--nodes 2 --master 10.0.0.2:9 --host 10.0.0.7", "--host 10.0.0.7: this machine has", id="host"
        ),
    ],
)
def test_a_machine_that_cannot_find_its_place_says_what_to_type(line: str, said: str) -> None:
    with pytest.raises(UsageMistake) as raised:
        found(line)

    assert said in str(raised.value)


def test_the_key_is_that_of_the_token_or_else_of_the_program() -> None:
    token = {"NBDIST_TOKEN": "s"}

    assert link_key({}, "a") != link_key({}, "b")
    assert link_key(token, "a") == link_key(token, "b") != link_key({"NBDIST_TOKEN": "t"}, "a")


def test_every_machine_knows_all_ranks_and_the_key_is_in_no_file(tmp_path: Path) -> None:
    environ = {"NBDIST_HOME": str(tmp_path / "home"), "PATH": "/usr/bin", "NBDIST_TOKEN": "hunter2"}
    line = "-n 2 --nodes 2 --node-rank 1 --master 10.0.0.1:29400"

    planned = runner.plan(options.parse(line), cell="pass", cwd=str(tmp_path), environ=environ)

    spec = planned.spec
    assert [(r.rank, r.local_rank, r.node_rank) for r in spec.ranks] == [
        (0, 0, 0),
        (1, 1, 0),
        (2, 0, 1),
        (3, 1, 1),
    ]
    assert [rank.rank for rank in spec.here] == [2, 3]
    key = planned.environment[LINK_KEY]
    assert "NBDIST_TOKEN" not in planned.environment
    assert key not in str(spec.to_dict())
    assert type(spec).from_dict(spec.to_dict()) == spec
