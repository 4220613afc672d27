"""The doctor on a real Slurm of two nodes: what it finds, what it says, and that it leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engines.conftest import Login, until

pytestmark = pytest.mark.cluster


def examined(login: Login, *words: str, **variables: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the entries by section and title."""
    asking = login.start("doctor", "--on", "slurm", "--json", *words, **variables)
    out, err = asking.communicate(timeout=150)
    assert out, err
    entries = json.loads(out)["entries"]
    return asking.returncode, {f"{each['section']}/{each['title']}": each for each in entries}


def levels(found: dict[str, Any]) -> dict[str, str]:
    return {name: entry["level"] for name, entry in found.items()}


def test_a_cluster_that_is_well_has_nothing_red(login: Login) -> None:
    code, found = examined(login)

    assert code == 0, found
    seen = levels(found)
    fine = ["slurm/commands", "slurm/controller", "slurm/partition", "nodes/job", "nodes/Python there"]
    fine += ["nodes/nbdist there", "nodes/shared directory", "nodes/ports"]
    assert [seen[name] for name in fine] == ["ok"] * len(fine), found
    assert "on n1, n2" in found["nodes/job"]["what"]
    assert found["slurm/GPUs"]["what"] == "2 on n1, n2"
    # the nodes of this Slurm have names that only it knows, and GPUs that it only believes in
    assert "no address for n1, n2" in found["nodes/names"]["what"]
    assert "n1 has 0, Slurm says 2" in found["nodes/GPUs there"]["what"]
    assert list(login.home.rglob("*")) == []


def test_a_job_that_slurm_refuses_is_said_in_its_words(login: Login) -> None:
    code, found = examined(login, "--slurm", "constraint=fast")

    assert code == 1
    assert "Invalid feature specification" in found["nodes/job"]["what"]


def test_a_queue_that_does_not_start_the_look_is_not_waited_for(login: Login) -> None:
    login.cluster.call("sbatch", "--exclusive", "-N2", "--output=/dev/null", "--wrap", "sleep 600")
    until(lambda: "RUNNING" in login.jobs())

    code, found = examined(login, "--wait", "1s")

    assert code == 1
    assert "it is next, and waits for nodes" in found["nodes/job"]["what"]
    assert "--wait 10m" in found["nodes/job"]["fix"]
    until(lambda: len(login.jobs().splitlines()) == 1)
    login.cluster.call("scancel", "--user", str(os.getuid()))


def test_an_interrupt_takes_the_job_back(login: Login) -> None:
    login.cluster.call("sbatch", "--exclusive", "-N2", "--output=/dev/null", "--wrap", "sleep 600")
    until(lambda: "RUNNING" in login.jobs())
    asking = login.start("doctor", "--on", "slurm", "--wait", "10m")
    until(lambda: "PENDING" in login.jobs())

    asking.send_signal(signal.SIGINT)
    asking.communicate(timeout=60)

    until(lambda: "PENDING" not in login.jobs())
    login.cluster.call("scancel", "--user", str(os.getuid()))


def test_nothing_of_a_user_reaches_a_shell(login: Login) -> None:
    home = login.folder / "a $(touch evil); `touch evil` {x} 'b'"
    code, found = examined(login, "--slurm", "comment=$(touch evil);touch evil", NBDIST_HOME=str(home))

    assert code == 0, found
    assert [path.name for path in login.folder.rglob("evil*")] == []


def test_an_environment_that_the_nodes_lack_is_named(login: Login) -> None:
    # the link is taken away once the doctor runs: to the nodes it is a Python that is only here
    here = login.folder / "python-of-this-machine"
    script = (
        "import os, sys; os.unlink(sys.argv[1]); sys.executable = sys.argv[1]\n"
        "from nbdist.cli.commands import main; sys.argv = ['nbdist', 'doctor', '--on', 'slurm', '--json']\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    here.symlink_to(sys.executable)
    done = subprocess.run(
        [sys.executable, "-c", script, str(here)],
        env=login.environment,
        cwd=login.folder,
        capture_output=True,
        text=True,
        timeout=150,
    )

    entries = {each["title"]: each for each in json.loads(done.stdout)["entries"]}
    assert entries["Python there"]["what"] == f"n1, n2: no {here}"
    assert done.returncode == 1


def test_the_magic_looks_at_the_cluster(login: Login, tmp_path: Path) -> None:
    cell = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_line_magic('load_ext', 'nbdist')\n"
        "shell.run_line_magic('dist_doctor', '--on slurm --nodes 1')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", cell],
        env=login.environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=150,
    )

    assert "shared directory" in done.stdout, done.stderr
