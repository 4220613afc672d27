"""A run on two machines hangs when nothing happens on any of them, and each says where all ranks are."""

from __future__ import annotations

import time

import pytest

from nbdist.diagnosis.stack_text import sentence
from nbdist.diagnosis.stacks import last_stacks, take_stacks
from nbdist.runner.handle import RunHandle
from tests.engines.programs import HANGS, HANGS_AT
from tests.nodes.conftest import MASTER, Cluster, until

pytestmark = pytest.mark.cluster


def reported(handle: RunHandle) -> str:
    report = last_stacks(handle.run, handle.directory)
    return "" if report is None else sentence(report)


def test_a_run_that_hangs_on_both_machines_says_where_all_ranks_are(cluster: Cluster) -> None:
    words = ("--nodes", "2", "--master", MASTER, "--wait", "40", "--hang-after", "3s", "-n", "1")
    running = cluster.begin(HANGS, *words)
    handles = [machine.run for machine in cluster.machines]

    until(lambda: all(handle.run.stalled is not None for handle in handles), limit=90)

    worked = float((cluster.machines[1].folder / "worked").read_text())
    for handle in handles:
        until(lambda handle=handle: reported(handle) == HANGS_AT)
        assert (handle.run.stalled or 0.0) > worked - 2  # node 0 alone has waited for long
    begun = time.time()
    report = take_stacks(handles[0].directory, timeout=30)
    assert (sentence(report), report.problem, report.time >= begun) == (HANGS_AT, "", True)

    handles[0].stop("seen")
    cluster.finish(running)
