"""The place of this machine among several, from the command line and its own addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist import config, options, runner
from nbdist.errors import UsageMistake
from nbdist.runner.placement import NodeSet, find_nodes, link_keys, new_token, words_of_node_1

HERE = {"127.0.0.1", "10.0.0.2", "192.168.7.5"}
NAMES = {"node0": "10.0.0.1", "node1": "10.0.0.2"}


def nodes_of(line: str) -> NodeSet:
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
    nodes = nodes_of(line)

    assert (nodes.rank, nodes.master) == (rank, master)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            "--ips 10.0.0.1,10.0.0.3", "none is of this machine, which has 10.0.0.2", id="not listed"
        ),
        pytest.param("--ips 10.0.0.2,192.168.7.5", "several are of this machine", id="listed twice"),
        pytest.param("--nodes 3 --master 10.0.0.1:9", "--node-rank 0  on the one with 10", id="of three"),
        pytest.param("--nodes 2 --master 127.0.0.1:9", "needs the number of this machine", id="both on one"),
        pytest.param(
            "--nodes 2 --node-rank 0 --master 10.0.0.1:9", "is no address of this machine", id="not 0"
        ),
        pytest.param(
            "--nodes 2 --master 10.0.0.2:9 --host 10.0.0.7", "--host 10.0.0.7 is not here", id="host"
        ),
    ],
)
def test_a_machine_that_cannot_find_its_place_says_what_to_type(line: str, expected: str) -> None:
    with pytest.raises(UsageMistake) as raised:
        nodes_of(line)

    assert expected in str(raised.value)


def test_machines_with_one_home_directory_have_one_key_for_one_program(tmp_path: Path) -> None:
    home, other = ({"XDG_CONFIG_HOME": str(tmp_path / name)} for name in ("home", "other"))

    assert link_keys(home, "a") == link_keys(home, "a") != link_keys(home, "b")
    assert link_keys(home, "a") != link_keys(other, "a")
    assert (tmp_path / "home/nbdist/machines.key").stat().st_mode & 0o777 == 0o600


def test_a_token_is_the_only_key_whatever_the_program(tmp_path: Path) -> None:
    token = {"NBDIST_TOKEN": "s", "XDG_CONFIG_HOME": str(tmp_path)}

    assert link_keys(token, "a") == link_keys(token, "b") != link_keys(token | {"NBDIST_TOKEN": "t"}, "a")
    assert not list(tmp_path.iterdir())


def test_the_token_that_node_0_makes_is_the_key_of_who_types_it(tmp_path: Path) -> None:
    token = new_token()
    home, other = ({"XDG_CONFIG_HOME": str(tmp_path / name)} for name in ("home", "other"))

    accepted = link_keys(home, "a", token)

    assert set(link_keys(home, "a")) < set(accepted)
    assert set(link_keys(other | {"NBDIST_TOKEN": token}, "b")) < set(accepted)
    assert len(token) == 19
    assert token != new_token()


def test_a_key_that_the_disk_has_cut_off_is_none(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    (tmp_path / "nbdist").mkdir()
    (tmp_path / "nbdist/machines.key").touch()

    assert len(link_keys(environ, "a", "token")) == 1
    with pytest.raises(UsageMistake, match="NBDIST_TOKEN=…  that node 0 has printed"):
        link_keys(environ, "a")


@pytest.mark.parametrize(
    "line",
    [
        "--node-rank {} --master m -n 2",
        "torchrun --nnodes=2 --node_rank={} -n 1",
        "--rank {}",
        "--ips a,b -n 1",
    ],
    ids=["its own words", "torchrun's", "paddle's", "none"],
)
def test_the_command_line_for_node_1_has_its_number(line: str) -> None:
    assert words_of_node_1(line.format(0).split()) == line.format(1).split()


def test_every_machine_knows_all_ranks_and_the_key_is_in_no_file(tmp_path: Path) -> None:
    environ = {"NBDIST_HOME": str(tmp_path / "home"), "PATH": "/usr/bin", "NBDIST_TOKEN": "hunter2"}
    line = "-n 2 --nodes 2 --node-rank 1 --master 10.0.0.1:29400"

    planned = runner.plan(options.parse(line), cell="pass", cwd=str(tmp_path), environ=environ)

    spec = planned.spec
    places = [(rank.rank, rank.local_rank, rank.node_rank) for rank in spec.ranks]
    assert places == [(0, 0, 0), (1, 1, 0), (2, 0, 1), (3, 1, 1)]
    assert [rank.rank for rank in spec.here] == [2, 3]
    key = planned.environment[config.LINK_KEY]
    assert "NBDIST_TOKEN" not in planned.environment
    assert key not in str(spec.to_dict())
    assert type(spec).from_dict(spec.to_dict()) == spec
