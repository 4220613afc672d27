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

from nbdist.store import RunStore
from tests.engines.conftest import Login, until

pytestmark = pytest.mark.cluster


def examined(login: Login, *words: str, **variables: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the entries by section and title."""
    asking = login.start("doctor", "--on", "slurm", "--json", *words, **variables)
    out, err = asking.communicate(timeout=150)
    assert out, err
    entries = json.loads(out)["entries"]
    return asking.returncode, {f"{each['section']}/{each['title']}": each for each in entries}


def test_nodes_that_are_well_have_nothing_red_and_no_run_stays(login: Login) -> None:
    code, found = examined(login)

    assert code == 0, found
    fine = ["job", "shared directory", "ports", "Python there", "nbdist there", "torch there"]
    assert [found[f"nodes/{name}"]["level"] for name in fine] == ["ok"] * len(fine), found
    assert "on n1, n2" in found["nodes/job"]["what"]
    assert not RunStore(login.home).directories()


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
