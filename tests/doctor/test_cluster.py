"""Comparison of the answers of a cluster's nodes; ``tests/engines`` has real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.doctor import ClusterRequest, Entry, Level, examine_cluster
from nbdist.doctor.cluster import NodeAnswer, compare

PYTHON = "3.11.7, /shared/env/bin/python"
HERE = (
    Entry(section="python", title="Python", level=Level.OK, what=PYTHON),
    Entry(section="python", title="nbdist", level=Level.OK, what="1.0, /shared"),
    Entry(section="frameworks", title="torch", level=Level.WARNING, what="2.13.0, built for CUDA 12.4"),
    Entry(section="frameworks", title="torch starts", level=Level.OK, what="on the CPU, with gloo"),
)
STARTS = Entry(
    section="frameworks", title="torch starts", level=Level.OK, what="sees 2 of 2 GPUs, NCCL 2.21.5"
)
DRIVER = Entry(section="gpus", title="driver", level=Level.OK, what="550.54, CUDA up to 12.4")
GPUS = tuple(
    Entry(section="gpus", title=f"GPU {index}", level=Level.OK, what="H100: 79 of 80 GB free")
    for index in range(2)
)
GPU_LOST = Entry(
    section="gpus", title="GPU 1", level=Level.ERROR, what="it does not answer", fix="nvidia-smi"
)


def a_node(name: str, *changed: Entry, without: str = "") -> NodeAnswer:
    """Return the answer of a node like this machine, but for the test's changes."""
    entries = {entry.title: entry for entry in (*HERE, STARTS, DRIVER, *GPUS, *changed)}
    entries.pop(without, None)
    return NodeAnswer(name=name, entries=tuple(entries.values()))


def an_entry(section: str, title: str, what: str) -> Entry:
    return Entry(section=section, title=title, level=Level.OK, what=what)


def test_nodes_that_are_as_this_machine_are_well() -> None:
    entries = {entry.title: entry for entry in compare(HERE, [a_node("n1"), a_node("n2")])}

    assert {entry.level for entry in entries.values()} == {Level.OK}
    assert {"Python there", "nbdist there", "torch there", "GPUs there"} <= set(entries)
    assert entries["GPUs there"].what == "2 on each"


@pytest.mark.parametrize(
    ("node", "title", "what", "fix"),
    [
        pytest.param(
            a_node("n2", an_entry("python", "Python", "3.9.2, /usr/bin/python3")),
            "Python there",
            f"3.9.2, /usr/bin/python3 (n2), but here {PYTHON}",
            "an environment that all machines see",
            id="another Python",
        ),
        pytest.param(
            a_node("n2", without="nbdist"),
            "nbdist there",
            "- (n2), but here 1.0, /shared",
            "an environment that all machines see",
            id="no nbdist",
        ),
        pytest.param(
            a_node("n2", an_entry("frameworks", "torch starts", "sees 2 of 2 GPUs, NCCL 2.18.3")),
            "torch starts there",
            "sees 2 of 2 GPUs, NCCL 2.21.5 (n1), sees 2 of 2 GPUs, NCCL 2.18.3 (n2)",
            "--slurm constraint=NAME",
            id="another NCCL",
        ),
        pytest.param(
            a_node("n2", without="GPU 1"),
            "GPUs there",
            "1 to 2, the nodes differ",
            "--gpus 1",
            id="fewer GPUs",
        ),
        pytest.param(
            a_node("n2", GPU_LOST), "GPU 1 there", "n2: it does not answer", "nvidia-smi", id="an error there"
        ),
    ],
)
def test_what_differs_on_a_node_is_named_with_what_to_do(
    node: NodeAnswer, title: str, what: str, fix: str
) -> None:
    entries = {entry.title: entry for entry in compare(HERE, [a_node("n1"), node])}

    entry = entries[title]

    assert entry.level in (Level.ERROR, Level.WARNING)
    assert what in entry.what
    assert fix in entry.fix
    assert entry.what_zh != entry.what


@pytest.mark.parametrize(
    ("engine", "address", "what"),
    [
        pytest.param("slurm", "", "no sbatch here: Slurm's commands belong into PATH", id="no Slurm"),
        pytest.param("ray", "http://127.0.0.1:1", "write the address of its dashboard", id="no listener"),
        pytest.param(
            "ray", "ray://head:10001", "its dashboard is needed:  --ray http://", id="another protocol"
        ),
    ],
)
def test_an_engine_that_is_not_there_says_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, address: str, what: str
) -> None:
    monkeypatch.setenv("NBDIST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))

    report = examine_cluster(ClusterRequest(engine=engine, nodes=2, options=(), address=address, wait=1.0))

    (entry,) = report.entries
    assert entry.level is Level.ERROR
    assert what in entry.what
    assert not list(tmp_path.glob("home/runs/*"))
