"""A run on two machines: the same command on each, and what happens when one of them fails."""

from __future__ import annotations

import re
import signal
import time

import pytest

from nbdist import processes
from nbdist.cli.running import TIME_LIMIT
from nbdist.errors import UsageMistake
from nbdist.feed.view import log_place
from nbdist.launch.machines.connections import PEER_TIMEOUT
from tests.nodes.conftest import MASTER, Cluster, until

pytestmark = pytest.mark.cluster

ADDRESS = MASTER.partition(":")[0]
TWO = ("--nodes", "2", "--master", MASTER, "--wait", "40")

TORCH = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
names = ["MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "NBDIST_LINK_KEY"]
print("sum", total.item(), *[os.environ.get(name) for name in names], flush=True)
"""

PADDLE = """
import os, paddle, paddle.distributed as dist
dist.init_parallel_env()
total = paddle.to_tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print("sum", total.item(), os.environ["PADDLE_TRAINER_ENDPOINTS"], os.environ["PADDLE_CURRENT_ENDPOINT"],
      flush=True)
"""

# a rank does not have to use the network for its machine to be missed
ENDLESS = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"


def test_ranks_of_torch_on_two_machines_compute_together(cluster: Cluster) -> None:
    pytest.importorskip("torch")

    ends = cluster.run(TORCH, *TWO, "-n", "2", limit=120)

    assert [code for code, _ in ends] == [0, 0], ends
    for node, (_, output) in enumerate(ends):
        for local_rank in range(2):
            rank = 2 * node + local_rank
            assert f"[{rank}] sum 10.0 {ADDRESS} 29400 {rank} {local_rank} {node} 4 None" in output
        assert f"node {node} of 2 waits up to" in output
    assert cluster.states() == ["finished", "finished"]
    # what became of the others' ranks is known, and their logs are where they ran
    for node, machine in enumerate(cluster.machines):
        others = [rank for rank in machine.run.run.ranks if rank.spec.node_rank != node]
        assert [rank.state.value for rank in others] == ["finished"] * 2
        with pytest.raises(
            UsageMistake, match=rf"ran on node {1 - node} \(10\.213\.77\.\d\), and its log is"
        ):
            machine.run.check_log(others[0].rank)


def test_ranks_of_paddle_meet_by_a_list_of_addresses_pasted_from_fleetrun(cluster: Cluster) -> None:
    pytest.importorskip("paddle")
    ips = ",".join(machine.address for machine in cluster.machines)

    ends = cluster.run(PADDLE, "fleetrun", f"--ips={ips}", "--nproc_per_node=1", limit=120)

    assert [code for code, _ in ends] == [0, 0], ends
    endpoints = [f"{machine.address}:29502" for machine in cluster.machines]
    for node, (_, output) in enumerate(ends):
        assert f"[{node}] sum 3.0 {','.join(endpoints)} {endpoints[node]}" in output


@pytest.mark.parametrize("dead", [0, 1])
def test_a_machine_whose_supervisor_dies_ends_the_others_at_once(cluster: Cluster, dead: int) -> None:
    running = cluster.begin(ENDLESS, *TWO, "-n", "1")
    died = time.monotonic()

    cluster.machines[dead].kill_supervisor()
    ends = cluster.finish(running)

    assert time.monotonic() - died < PEER_TIMEOUT
    _, output = ends[1 - dead]
    address = cluster.machines[dead].address
    assert f"node {dead} ({address}) was lost: its nbdist process ended" in output
    assert [cluster.states()[node] for node in (dead, 1 - dead)] == ["lost", "failed"]


def test_a_machine_without_a_cable_ends_the_run_on_both_sides_in_time(cluster: Cluster) -> None:
    running = cluster.begin(ENDLESS, *TWO, "-n", "1")
    unplugged = time.monotonic()

    cluster.machines[1].unplug()
    ends = cluster.finish(running)

    assert time.monotonic() - unplugged < PEER_TIMEOUT + 15
    for node, (code, output) in enumerate(ends):
        other = cluster.machines[1 - node]
        assert code == 1
        assert f"node {other.number} ({other.address}) was lost: nothing came from it for 10 s" in output


def test_a_machine_that_waits_for_its_disk_is_waited_for(cluster: Cluster) -> None:
    program = "import time\nprint('ready', flush=True)\ntime.sleep(20)\nprint('done')\n"
    running = cluster.begin(program, *TWO, "-n", "1")
    waiting, other = (machine.run.run for machine in (cluster.machines[1], cluster.machines[0]))
    assert waiting.supervisor is not None
    assert not other.awaited

    # as one whose write does not return
    processes.send(waiting.supervisor, signal.SIGSTOP)
    until(lambda: cluster.machines[0].run.run.awaited == (1,))
    output = log_place(cluster.machines[0].run.run, cluster.machines[0].run.run.ranks[1])
    time.sleep(PEER_TIMEOUT)
    processes.send(waiting.supervisor, signal.SIGCONT)
    until(lambda: not cluster.machines[0].run.run.awaited)
    ends = cluster.finish(running)

    assert output == f"node 1 ({cluster.machines[1].address}) waits for its disk"
    assert [code for code, _ in ends] == [0, 0], ends


def test_a_rank_that_fails_ends_the_ranks_of_the_other_machine(cluster: Cluster) -> None:
    program = (
        "import os, time\nif os.environ['RANK'] == '1':\n    raise ValueError('bad data')\ntime.sleep(600)\n"
    )

    ends = cluster.run(program, *TWO, "-n", "1")

    assert [code for code, _ in ends] == [1, 1]
    address = cluster.machines[1].address
    assert f"rank 1 on node 1 ({address}) failed: ValueError: bad data" in ends[0][1]
    assert "rank 1 failed first: ValueError at line 3 of train.py" in ends[1][1]


def test_a_stop_on_one_machine_stops_both(cluster: Cluster) -> None:
    running = cluster.begin(ENDLESS, *TWO, "-n", "1")

    cluster.machines[1].run.stop("enough")
    ends = cluster.finish(running)

    assert cluster.states() == ["stopped", "stopped"]
    assert "enough (node 1)" in ends[0][1]


def test_at_a_limit_the_ranks_of_both_machines_leave_at_one_call(cluster: Cluster) -> None:
    program = (
        "import nbdist, os, time\nstep = 0\nwhile not nbdist.should_stop():\n    step += 1\n"
        "    time.sleep(0.02 * (1 + int(os.environ['RANK'])))\nprint('left at', step)\n"
    )

    ends = cluster.run(program, *TWO, "-n", "1", "--until", "3s")

    left = {re.search(r"left at (\d+)", output)[1] for _, output in ends}
    assert [code for code, _ in ends] == [0, 0], ends
    assert len(left) == 1


@pytest.mark.parametrize("first", [0, 1])
def test_a_time_limit_is_that_of_the_run_though_a_clock_is_behind(cluster: Cluster, first: int) -> None:
    cluster.script(ENDLESS)
    limits = {first: "2s", 1 - first: "60s"}

    words = [(*TWO, "-n", "1", "--timeout", limits[node], "train.py") for node in (0, 1)]
    ends = cluster.finish([machine.start(*words[machine.number]) for machine in cluster.machines])

    assert [code for code, _ in ends] == [TIME_LIMIT, TIME_LIMIT]
    assert all("failed: the time limit of" in output for _, output in ends), ends


def test_a_time_limit_ends_those_who_have_done_their_part(cluster: Cluster) -> None:
    program = "import os, time\nif os.environ['RANK'] == '1':\n    time.sleep(600)\n"

    ends = cluster.run(program, *TWO, "-n", "1", "--timeout", "2s")

    assert [code for code, _ in ends] == [TIME_LIMIT, TIME_LIMIT], ends


def test_a_failure_is_followed_by_another_attempt_on_both(cluster: Cluster) -> None:
    program = (
        "import os, pathlib\n"
        "if os.environ['RANK'] == '1' and not pathlib.Path('been').exists():\n"
        "    pathlib.Path('been').touch()\n"
        "    raise ValueError('once')\n"
    )

    ends = cluster.run(program, *TWO, "-n", "1", "--retries", "1")

    assert [code for code, _ in ends] == [0, 0], ends
    assert [machine.run.run.attempt for machine in cluster.machines] == [2, 2]


@pytest.mark.parametrize("missing", [0, 1])
def test_a_machine_that_does_not_come_is_named_when_the_wait_is_over(cluster: Cluster, missing: int) -> None:
    cluster.script("print('never')\n")
    words = (*TWO[:-1], "1s", "-n", "1", "train.py")

    ((code, output),) = cluster.finish([cluster.machines[1 - missing].start(*words)])

    assert code == 1
    assert f"node {missing} did not connect to {ADDRESS}:29401 within 1 s" in output
    assert "run the same there" in output
    assert "[0] never" not in output


def test_a_wait_can_be_interrupted(cluster: Cluster) -> None:
    cluster.script("print('never')\n")
    running = cluster.machines[0].start(*TWO, "-n", "1", "train.py")
    handle = cluster.machines[0].run
    until(lambda: handle.run.awaited == (1,))

    handle.stop("changed my mind")

    ((code, _),) = cluster.finish([running])
    assert (code, handle.status) == (128 + signal.SIGINT, "stopped")


# and other tokens, or other numbers of ranks, while a run goes on, in test_strangers.py
def test_machines_with_different_programs_say_so(cluster: Cluster) -> None:
    cluster.script("print(1)\n")
    cluster.machines[1].script("print(2)\n")

    ends = cluster.finish(cluster.start("-n", "1", *TWO[:-1], "3s"))

    assert [code for code, _ in ends] == [1, 1]
    assert "another program or has another NBDIST_TOKEN" in ends[1][1]


def test_one_token_holds_machines_with_different_programs_together(cluster: Cluster) -> None:
    cluster.script("print('one')\n")
    cluster.machines[1].script("import os\nprint('two', 'NBDIST_TOKEN' in os.environ)\n")
    words = (*TWO, "-n", "1", "train.py")

    ends = cluster.finish([machine.start(*words, NBDIST_TOKEN="s") for machine in cluster.machines])

    assert [code for code, _ in ends] == [0, 0], ends
    assert "[1] two False" in ends[1][1]
