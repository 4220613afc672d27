"""What the doctor makes of what Slurm and its nodes say; without them, or with an srun of a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nbdist.doctor import Entry, Level
from nbdist.doctor.node_checks import Here, JobResult, ProbeResult, check_nodes
from nbdist.doctor.node_job import SlurmJob
from nbdist.doctor.slurm import Answer, PartitionFacts, SlurmExamination, check_partition, gpus_of

# as scontrol -o show partition writes them, 22.05; of each the fields that are read, and others
PARTITIONS = """\
PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES MaxNodes=UNLIMITED \
MaxTime=UNLIMITED MinNodes=0 Nodes=n[1-2] State=UP TotalCPUs=8 TotalNodes=2 DefMemPerNode=UNLIMITED
PartitionName=gpu AllowGroups=ml,root AllowAccounts=ALL Default=NO MaxNodes=2 MaxTime=1-00:00:00 MinNodes=0 \
Nodes=g[1-8] State=UP TotalNodes=8
PartitionName=paid AllowGroups=ALL DenyAccounts=students AllowQos=ALL Default=NO MaxNodes=4 MaxTime=60 \
MinNodes=2 Nodes=p[1-8] State=UP TotalNodes=8
PartitionName=few AllowGroups=ALL AllowAccounts=chemistry,physics Default=NO MaxNodes=4 MaxTime=60 \
MinNodes=0 Nodes=p[1-8] State=UP TotalNodes=8
PartitionName=closed AllowGroups=ALL AllowAccounts=ALL Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED \
MinNodes=0 Nodes=n[1-2] State=DRAIN TotalNodes=2
"""


@pytest.mark.parametrize(
    ("asked", "nodes", "level", "what", "fix"),
    [
        pytest.param("", 2, Level.OK, "main, the default, 2 nodes", "", id="the default"),
        pytest.param(
            "nope",
            2,
            Level.ERROR,
            "there is no nope: there are main, gpu",
            "--slurm partition=main",
            id="unknown",
        ),
        pytest.param("closed", 2, Level.ERROR, "closed: it is drain", "--slurm partition=main", id="closed"),
        pytest.param("", 3, Level.ERROR, "main: it has 2 nodes, not 3", "--nodes 2", id="too few nodes"),
        pytest.param(
            "gpu", 2, Level.ERROR, "it is for the groups ml, root", "--slurm partition=main", id="a group"
        ),
        pytest.param(
            "few",
            2,
            Level.ERROR,
            "it is for the accounts chemistry, physics, and you have students",
            "--slurm account=chemistry",
            id="an account",
        ),
        pytest.param(
            "paid",
            2,
            Level.ERROR,
            "paid: it refuses students",
            "--slurm partition=main",
            id="an account refused",
        ),
    ],
)
def test_a_partition_that_cannot_be_used_says_why_and_which_can(
    asked: str, nodes: int, level: Level, what: str, fix: str
) -> None:
    partitions = PartitionFacts.read_all(PARTITIONS)

    entry = check_partition(partitions, asked=asked, nodes=nodes, groups=["users"], accounts=["students"])

    assert (entry.level, entry.section) == (level, "slurm")
    assert what in entry.what
    assert entry.fix.startswith(fix)
    assert bool(entry.fix) == bool(fix)


@pytest.mark.parametrize(
    ("nodes", "what"),
    [
        pytest.param(1, "has to take 2 nodes", id="fewer than it gives"),
        pytest.param(5, "may have 4 nodes of it, not 5", id="more than a job may have"),
    ],
)
def test_the_limits_of_a_partition_are_known(nodes: int, what: str) -> None:
    entry = check_partition(
        PartitionFacts.read_all(PARTITIONS), asked="paid", nodes=nodes, groups=None, accounts=[]
    )

    assert what in entry.what


def test_root_needs_no_group() -> None:
    partitions = PartitionFacts.read_all(PARTITIONS)

    assert check_partition(partitions, asked="gpu", nodes=2, groups=None, accounts=[]).level is Level.OK


@pytest.mark.parametrize(
    ("gres", "count"),
    [("gpu:2", 2), ("gpu:a100:4(S:0-1)", 4), ("gpu:a:2,gpu:b:1,nic:3", 3), ("(null)", 0), ("nic:1", 0)],
)
def test_gpus_are_read_as_slurm_writes_them(gres: str, count: int) -> None:
    assert gpus_of(gres) == count


def slurm_says(answers: dict[str, Answer], **given: Any) -> list[Entry]:
    """The entries where Slurm answers as told, by the first word or two."""

    def ask(*words: str) -> Answer:
        return answers.get(" ".join(words[:1]), Answer(0)) if words[0] != "scontrol" else answers[words[-1]]

    examination = SlurmExamination(
        options=given.get("options", ()),
        nodes=2,
        ask=ask,
        which=given.get("which", lambda name: f"/usr/bin/{name}"),
        groups=["users"],
        environ=given.get("environ", {}),
    )
    return list(examination.entries())


WITH_ACCOUNTS = (
    "AccountingStorageEnforce = associations,limits\nAccountingStorageType   = accounting_storage/slurmdbd\n"
)


@pytest.mark.parametrize(
    ("options", "sacctmgr", "level", "what"),
    [
        pytest.param((), Answer(0, "physics|\nchemistry|gpu\n"), Level.OK, "physics, chemistry", id="some"),
        pytest.param((), Answer(0, ""), Level.ERROR, "has none", id="none"),
        pytest.param(
            ("account=law",),
            Answer(0, "physics|\n"),
            Level.ERROR,
            "law is not one of yours: physics",
            id="another's",
        ),
        pytest.param((), Answer(127, missing=True), Level.INFO, "no sacctmgr here", id="no sacctmgr"),
    ],
)
def test_accounts_are_looked_at_where_slurm_keeps_them(
    options: Sequence[str], sacctmgr: Answer, level: Level, what: str
) -> None:
    answers = {"partition": Answer(0, PARTITIONS), "config": Answer(0, WITH_ACCOUNTS), "sacctmgr": sacctmgr}

    (account,) = [each for each in slurm_says(answers, options=options) if each.title == "account"]

    assert account.level is level
    assert what in account.what


@pytest.mark.parametrize(
    ("answer", "what", "fix"),
    [
        pytest.param(
            Answer(
                1,
                err="squeue: error: If munged is up, restart with --num-threads=10\n"
                "squeue: error: Munge encode failed: Failed to access socket: No such file or directory",
            ),
            "Failed to access socket: No such file or directory",
            "start the notebook on a login node",
            id="no munge",
        ),
        pytest.param(
            Answer(1, err="sinfo: fatal: Could not establish a configuration source"),
            "Could not establish a configuration source",
            "%env SLURM_CONF=",
            id="no configuration",
        ),
        pytest.param(
            Answer(124, err="squeue did not answer in 10 s"),
            "did not answer in 10 s",
            "scontrol ping",
            id="silence",
        ),
    ],
)
def test_a_controller_that_does_not_answer_says_why(answer: Answer, what: str, fix: str) -> None:
    entries = slurm_says({"squeue": answer})

    assert [entry.title for entry in entries] == ["commands", "controller"]
    assert what in entries[1].what
    assert fix in entries[1].fix


def test_a_machine_without_slurm_is_told_where_its_commands_are() -> None:
    (commands,) = slurm_says({}, which=lambda _: None)

    assert commands.level is Level.ERROR
    assert commands.what.startswith("not found: sbatch, squeue")
    assert "module load slurm" in commands.fix


def test_a_configuration_that_is_not_there_is_not_asked_for() -> None:
    entries = slurm_says({}, environ={"SLURM_CONF": "/nowhere/slurm.conf"})

    assert entries[-1].title == "controller"
    assert "SLURM_CONF is /nowhere/slurm.conf" in entries[-1].what


HERE = Here(
    python="3.11.7",
    executable="/shared/env/bin/python",
    packages={"nbdist": ["1.0", "/shared"], "torch": ["2.13.0", "/shared"]},
    home=Path("/shared/nbdist"),
    folder="/shared/work",
    gpus={"n1": 2, "n2": 2},
)


def a_node(
    number: int, *, late: float | None = 0.0, hello: Any = None, looked: Any = None, grown: Any = None
) -> ProbeResult:
    """One on which all is well, but for what the test changes."""
    said = {"number": number, "python": "3.11.7", "time": 1000.0, "packages": HERE.packages, "gpus": 2}
    names = {"n1": "10.0.0.1", "n2": "10.0.0.2"}
    seen = {"seen": 0.0, "wrote": "", "folder": True, "names": names, "unreachable": {}}
    return ProbeResult(
        name=f"n{number + 1}",
        hello=said | (hello or {}),
        looked=seen | (looked or {}),
        grown=grown or {"after": 0.0},
        came=1000.1,
        late=late,
    )


def judged(*nodes: ProbeResult) -> dict[str, Entry]:
    words = JobResult(nodes={node.name: node for node in nodes}, job="7", seconds=1.0)
    return {entry.title: entry for entry in check_nodes(words, HERE, asked=2)}


def test_nodes_that_are_as_this_machine_are_well() -> None:
    entries = judged(a_node(0), a_node(1))

    assert {entry.level for entry in entries.values()} == {Level.OK}
    assert {"shared directory", "names", "ports", "GPUs there", "torch there"} <= set(entries)


@pytest.mark.parametrize(
    ("node", "title", "what", "fix"),
    [
        pytest.param(
            a_node(1, looked={"seen": None}),
            "shared directory",
            "/shared/nbdist of this machine is not seen on n2",
            "NBDIST_HOME",
            id="a directory of this machine alone",
        ),
        pytest.param(
            a_node(1, looked={"wrote": "Read-only file system"}),
            "shared directory",
            "n2: /shared/nbdist cannot be written there: Read-only file system",
            "NBDIST_HOME",
            id="a directory that cannot be written",
        ),
        pytest.param(
            a_node(1, late=None),
            "shared directory",
            "what n2 writes",
            "NBDIST_HOME",
            id="the other way round",
        ),
        pytest.param(
            a_node(1, late=4.0), "late files", "after up to 4 s", "actimeo", id="a new file that is late"
        ),
        pytest.param(
            a_node(1, grown={"after": 31.0}),
            "late files",
            "after up to 31 s",
            "actimeo",
            id="an attribute cache",
        ),
        pytest.param(
            a_node(1, grown={"after": None}),
            "late files",
            "not within a minute on n2",
            "actimeo",
            id="a stuck cache",
        ),
        pytest.param(a_node(1, looked={"folder": False}), "folder", "is not on n2", "--cwd", id="no folder"),
        pytest.param(
            a_node(1, hello={"python": "3.9.2"}),
            "Python there",
            "3.9.2 on n2; here 3.11.7",
            "environment",
            id="Python",
        ),
        pytest.param(
            a_node(1, hello={"packages": {"nbdist": ["1.0", "/"], "torch": ["2.1.0", "/"]}}),
            "torch there",
            "2.1.0 on n2; here 2.13.0",
            "pip install torch==2.13.0",
            id="another torch",
        ),
        pytest.param(
            a_node(1, hello={"packages": {"torch": ["2.13.0", "/"]}}),
            "nbdist there",
            "not on n2; here 1.0",
            "pip install nbdist==1.0",
            id="no nbdist",
        ),
        pytest.param(
            a_node(1, looked={"unreachable": {"n1": "timed out"}}),
            "ports",
            "n2 does not reach a port of n1: timed out",
            "20000",
            id="a firewall",
        ),
        pytest.param(
            a_node(1, looked={"names": {"n1": "", "n2": "10.0.0.2"}}),
            "names",
            "no address for n1",
            "/etc/hosts",
            id="a name without an address",
        ),
        pytest.param(
            a_node(1, looked={"names": {"n1": "127.0.1.1", "n2": "10.0.0.2"}}),
            "names",
            "n1 lead to 127",
            "/etc/hosts",
            id="a name that leads to oneself",
        ),
        pytest.param(
            a_node(1, hello={"gpus": 1}),
            "GPUs there",
            "n2 has 1, Slurm says 2",
            "nvidia-smi",
            id="a lost GPU",
        ),
        pytest.param(a_node(1, hello={"time": 1030.0}), "clocks", "n2 is 30 s ahead", "chrony", id="a clock"),
        pytest.param(
            ProbeResult(name="n2"), "Python there", "n2: no /shared/env/bin/python", "install", id="no Python"
        ),
    ],
)
def test_what_is_wrong_on_a_node_is_named_with_what_to_do(
    node: ProbeResult, title: str, what: str, fix: str
) -> None:
    entry = judged(a_node(0), node)[title]

    assert entry.level in (Level.ERROR, Level.WARNING)
    assert what in entry.what
    assert fix in entry.fix
    assert entry.what_zh != entry.what or title == "GPUs there"


def test_a_node_that_says_nothing_more_is_named() -> None:
    silent = a_node(1)
    silent.looked = {}

    entry = judged(a_node(0), silent)["shared directory"]

    assert "file system stall" in entry.what or entry.level is Level.OK
    words = JobResult(nodes={"n1": a_node(0), "n2": silent}, job="7")
    said = [entry.what for entry in check_nodes(words, HERE, asked=2)]
    assert any("n2: no answer: does a file system stall there?" in each for each in said)


REFUSES_LATE = """#!/bin/sh
exec >&-
(sleep 0.3; echo "srun: error: Unable to allocate resources: Invalid feature specification" >&2) &
exit 1
"""


def test_what_slurm_says_as_it_ends_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"srun": REFUSES_LATE, "squeue": "#!/bin/sh\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    found = SlurmJob(nodes=2, options=[], home=tmp_path / "home", wait=10.0).run()

    assert found.refused == "Slurm refused the job: Invalid feature specification"
