"""Strangers, which can do nothing to a run on two machines."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.nodes.conftest import MASTER, NBDIST, Cluster, Machine, until

pytestmark = pytest.mark.cluster

TWO = ("--nodes", "2", "--master", MASTER, "--wait", "40", "-n", "1")

UNTIL_TOLD = """
import os, pathlib, time
print("ready", *os.environ.values(), flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.05)
"""

FLOOD = f"""
import selectors, socket
host, port = "{MASTER}".split(":")
selector = selectors.DefaultSelector()

def connect():
    connection = socket.create_connection((host, int(port) + 1))
    selector.register(connection, selectors.EVENT_READ)

for number in range(200):
    connect()
print("full", flush=True)
while True:
    for key, _ in selector.select():
        try:
            closed = not key.fileobj.recv(1000)
        except ConnectionError:
            closed = True
        if closed:
            selector.unregister(key.fileobj)
            key.fileobj.close()
            connect()
"""


def tell(cluster: Cluster) -> None:
    for machine in cluster.machines:
        (machine.folder / "go").touch()


def refused(machine: Machine, *words: str, **variables: str) -> str:
    """Run a command that node 0 refuses, and ends by itself; return its output."""
    home = str(machine.folder / "stranger")
    process = machine.start(*words, **{"NBDIST_HOME": home} | variables)
    out, err = process.communicate(timeout=40)
    assert process.returncode == 1, out + err
    return out + err


def test_a_healthy_run_goes_on_when_strangers_come(cluster: Cluster) -> None:
    running = cluster.begin(UNTIL_TOLD, *TWO)
    first_machine, second_machine = cluster.machines
    (second_machine.folder / "other.py").write_text("print('another program')\n")
    of_three = ("--nodes", "3", *TWO[2:], "--node-rank")

    outputs = {
        "second": refused(second_machine, *TWO, "--node-rank", "1", "train.py"),
        "beside node 0": refused(first_machine, *TWO, "--node-rank", "1", "train.py"),
        "of three": refused(second_machine, *of_three, "2", "train.py"),
        "two ranks": refused(second_machine, *TWO[:-1], "2", "train.py"),
        "program": refused(second_machine, *TWO, "other.py"),
        "home": refused(second_machine, *TWO, "train.py", XDG_CONFIG_HOME=str(second_machine.folder)),
        "token": refused(second_machine, *TWO, "train.py", NBDIST_TOKEN="a guess"),
    }
    tell(cluster)
    ends = cluster.finish(running)

    for name in ("second", "beside node 0"):
        assert f"node 1 is already here ({second_machine.address}): use another --node-rank" in outputs[name]
    assert "node 2 was asked for 3 nodes of 1 ranks, node 0 for 2 of 1" in outputs["of three"]
    assert "node 1 was asked for 2 nodes of 2 ranks, node 0 for 2 of 1" in outputs["two ranks"]
    for name in ("program", "home", "token"):
        assert "another program, or has another NBDIST_TOKEN" in outputs[name]
        assert "NBDIST_TOKEN=…  that node 0 has, or has printed" in outputs[name]
    assert [code for code, _ in ends] == [0, 0], ends
    assert cluster.states() == ["finished", "finished"]
    log = first_machine.run.directory.supervisor_log.read_text()
    assert f"the connection with {second_machine.address} was closed: node 1 was refused (node-taken)" in log


def test_a_machine_with_another_home_comes_in_by_the_line_that_node_0_prints(cluster: Cluster) -> None:
    cluster.script(UNTIL_TOLD)
    first_machine, second_machine = cluster.machines
    elsewhere = {"XDG_CONFIG_HOME": str(second_machine.folder / "config")}
    first = first_machine.start(*TWO, "--node-rank", "0", "train.py")
    (printed,) = re.findall("(NBDIST_TOKEN=.*)", first.stderr.readline() + first.stderr.readline())

    variable, *command = shlex.split(printed)
    assert command[:2] == ["nbdist", "run"]
    token = variable.partition("=")[2]
    second = second_machine.execute(*NBDIST, *command[1:], **elsewhere | {"NBDIST_TOKEN": token})
    for machine in cluster.machines:
        machine.until_ready()
    commands = b"".join(path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
    tell(cluster)
    ends = cluster.finish([first, second])

    assert [code for code, _ in ends] == [0, 0], ends
    assert token.encode() not in commands
    logs = [machine.run.logs(node) for node, machine in enumerate(cluster.machines)]
    assert all("ready" in log and token not in log for log in logs)
    files = [path for machine in cluster.machines for path in machine.home.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if token.encode() in path.read_bytes()]


def test_connections_that_say_nothing_keep_no_machine_out(cluster: Cluster) -> None:
    cluster.script("print('here')\n")
    first_machine, second_machine = cluster.machines
    first = first_machine.start(*TWO, "train.py")
    until(lambda: first_machine.run.run.awaited)
    flood = second_machine.execute(sys.executable, "-c", FLOOD)
    assert flood.stdout.readline() == "full\n"

    ends = cluster.finish([first, second_machine.start(*TWO, "train.py")])

    assert [code for code, _ in ends] == [0, 0], ends
