"""Start, use and end of warm ranks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nbdist import runner
from nbdist.devices.usage import memory_available
from nbdist.model import Device
from nbdist.model.plan import Plan
from nbdist.store.paths import RunDirectory
from nbdist.warm.idle_policy import IdlePolicy, SpareCpus, put_beside, put_last
from nbdist.warm.line import Line
from nbdist.warm.pool import WarmPool
from nbdist.warm.standby import StandbySupervisor
from tests.fakes.runs import a_spec
from tests.fakes.standbys import FakeStandby

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks wait on Linux alone")


def pool(
    mode: str = "auto",
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    **more: object,
) -> WarmPool:
    return WarmPool({"NBDIST_WARM": mode}, stand_by=partial(FakeStandby, **more), clock=clock, sleep=sleep)


def on_gpu(planned: Plan) -> Plan:
    rank = replace(planned.spec.ranks[0], device=Device(kind="gpu"))
    return replace(planned, spec=replace(planned.spec, ranks=(rank,)))


def test_after_a_run_as_many_ranks_are_ready_for_the_next(make_plan) -> None:
    ranks = pool()
    assert ranks.engage(make_plan("-n 2"), warm=None) == (None, "")
    assert ranks.engage(make_plan("-n 2"), warm=True)[1].startswith("no ranks wait yet")

    ranks.after(make_plan("-n 2"), warm=None)
    state = ranks.state()
    standby, cold = ranks.engage(make_plan("-n 2"), warm=None)

    assert (state.ranks, state.framework, state.ready) == (2, "torch", True)
    assert (standby is not None, cold) == (True, "")
    assert ranks.engage(make_plan("-n 2"), warm=None) == (None, "")


def test_by_default_ranks_are_made_ready_after_a_run() -> None:
    assert WarmPool({}).mode == WarmPool({"NBDIST_WARM": "nonsense"}).mode == "auto"


def test_off_makes_nothing_ready_and_lets_go_of_what_is(make_plan) -> None:
    ranks = pool("off")
    ranks.after(make_plan("-n 2"), warm=None)
    assert ranks.state().ranks == 0

    ranks.after(make_plan("-n 2"), warm=True)
    assert ranks.state().ranks == 2
    ranks.choose("off")
    assert ranks.state().ranks == 0


def test_cold_uses_nothing_and_keeps_what_waits(make_plan) -> None:
    ranks = pool()
    ranks.after(make_plan("-n 2"), warm=None)

    assert ranks.engage(make_plan("-n 2"), warm=False) == (None, "")
    assert ranks.state().ranks == 2


def test_ranks_that_do_not_fit_are_let_go_and_the_reason_is_said(make_plan) -> None:
    ranks = pool()
    ranks.after(make_plan("-n 2"), warm=None)

    standby, cold = ranks.engage(make_plan("-n 3"), warm=None)

    assert (standby, cold) == (None, "the warm ranks were started with -n 2")
    assert ranks.state().ranks == 0


def test_what_was_asked_for_stays_when_another_run_comes(make_plan, home) -> None:
    ranks = pool()
    ranks.keep(lambda: make_plan("-n 2"))

    assert ranks.engage(make_plan("-n 3"), warm=None)[1] == "the warm ranks were started with -n 2"
    ranks.after(make_plan("-n 3"), warm=None)

    assert ranks.state().ranks == 2


def test_beside_a_run_the_next_ranks_are_made_ready_and_hurry_when_it_has_ended(make_plan, tmp_path) -> None:
    now = [0.0]
    ranks = pool(clock=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    pause = ranks.beside(make_plan("-n 2"), warm=None, directory=RunDirectory(tmp_path))

    pause(1.5)
    assert ranks.state().ranks == 0
    pause(0.5)
    pause(0.1)
    made = ranks._standby
    assert made.beside

    ranks.after(make_plan("-n 2"), warm=None)
    assert (ranks._standby, made.beside) == (made, False)
    assert ranks.engage(make_plan("-n 2"), warm=None) == (made, "")

    # what is sure to come does not wait for idle processors
    ranks.after(make_plan("-n 2"), warm=None, goes_on=True, hurry=True)
    assert ranks._standby.hurried


def test_beside_a_run_that_began_again_cold_nothing_stays(make_plan, tmp_path) -> None:
    ranks, directory = pool(), RunDirectory(tmp_path)
    ranks.after(make_plan("-n 2"), warm=None, goes_on=True)
    directory.rank(0).path.mkdir(parents=True)
    directory.rank(0).again.write_text("KMP_INIT_AT_FORK was set before the program imports torch")

    ranks.after(make_plan("-n 2"), warm=None, directory=directory)

    assert ranks.state().ranks == 0


def test_ranks_that_still_import_are_those_of_the_next_run_unless_they_have_only_just_been_started(
    make_plan,
) -> None:
    ranks = pool(ready=False)
    ranks.after(make_plan("-n 2"), warm=None)
    assert ranks.engage(make_plan("-n 2"), warm=None)[0] is not None

    ranks = pool(ready=False, up=False)
    ranks.after(make_plan("-n 2"), warm=None)
    assert ranks.engage(make_plan("-n 2"), warm=None) == (None, "")
    assert ranks.state().ranks == 0


def test_a_program_that_sets_what_the_import_reads_starts_cold(make_plan) -> None:
    ranks = pool()
    early = make_plan("-n 2", "import os\nos.environ['TORCH_LOGS'] = 'dynamo'\nimport torch")
    late = make_plan("-n 2", "import os, torch\nos.environ['TORCH_LOGS'] = 'dynamo'")

    ranks.after(early, warm=None)
    assert ranks.state().reason == "the program sets TORCH_LOGS before it imports torch"
    assert ranks.engage(early, warm=True) == (None, ranks.state().reason)

    ranks.after(late, warm=None)
    assert ranks.engage(early, warm=None)[1] == "the program sets TORCH_LOGS before it imports torch"
    ranks.after(late, warm=None)
    assert ranks.engage(late, warm=None)[0] is not None


def test_a_program_that_began_again_starts_cold_the_next_time(make_plan, tmp_path) -> None:
    ranks, directory = pool(), RunDirectory(tmp_path)
    planned = make_plan("-n 2", "import sklearn\nimport torch")
    directory.rank(0).path.mkdir(parents=True)
    directory.rank(0).again.write_text("KMP_INIT_AT_FORK was set before the program imports torch")

    ranks.after(planned, warm=None, directory=directory)
    assert ranks.state().reason.startswith("KMP_INIT_AT_FORK was set")

    ranks.after(make_plan("-n 2", "import torch"), warm=None)
    changed = make_plan("-n 2", "import sklearn\nimport torch\nprint(1)")
    assert ranks.engage(changed, warm=None)[1].startswith("KMP_INIT_AT_FORK was set")
    ranks.after(make_plan("-n 2", "import torch"), warm=None)
    assert ranks.engage(changed, warm=True)[0] is not None


@pytest.mark.parametrize(
    ("gone", "hopeless"), [("rank 0 has 2 threads", True), ("memory got short: 300 MB were left", False)]
)
def test_only_what_may_go_well_the_next_time_is_tried_again(make_plan, gone: str, hopeless: bool) -> None:
    ranks = pool(gone=gone, ready=False, hopeless=hopeless)
    ranks.after(make_plan("-n 2"), warm=None)
    assert ranks.state().reason == gone

    ranks.after(make_plan("-n 2"), warm=None)
    assert (ranks._standby is None) is hopeless

    ranks.after(make_plan("-n 3"), warm=None)
    assert ranks._standby is not None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param("gpu", "on GPUs only ranks of torch wait", id="paddle on a GPU"),
        pytest.param("none", "none of torch, paddle and jax", id="no framework"),
    ],
)
def test_what_starts_cold_says_so_where_warm_was_asked_for(make_plan, change: str, reason: str) -> None:
    planned = make_plan("-n 1", "print(1)" if change == "none" else "import paddle")
    if change == "gpu":
        planned = on_gpu(planned)

    assert reason in pool().engage(planned, warm=True)[1]
    assert pool().engage(planned, warm=None) == (None, "")


def test_ranks_of_torch_wait_for_a_gpu_too(make_plan) -> None:
    ranks, planned = pool(), on_gpu(make_plan("-n 1"))
    ranks.after(planned, warm=None)

    standby, cold = ranks.engage(planned, warm=None)

    assert standby is not None
    assert cold == ""


@pytest.mark.usefixtures("leaves_nothing", "light_torch")
def test_a_run_starts_cold_where_the_ranks_do_not_take_it(make_plan) -> None:
    ranks = pool(problem="the ranks that wait did not answer")
    ranks.after(make_plan("-n 1"), warm=None)

    handle = runner.start(make_plan("-n 1"), pool=ranks)

    assert handle.wait(60) == "finished"
    assert handle.notes == ("the ranks kept ready were not used: the ranks that wait did not answer",)


def test_what_there_is_is_said_in_a_line(make_plan) -> None:
    ranks = pool()
    assert runner.describe_warm(ranks.state()) == []

    ranks.after(make_plan("-n 2"), warm=None)

    line = "warm: 2 ranks of torch wait for the next run (500 MB of memory, 400 MB of them private)"
    assert runner.describe_warm(ranks.state()) == [line]


def test_memory_is_what_the_control_group_leaves(tmp_path) -> None:
    group = tmp_path / "sys/fs/cgroup/box"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 4000 kB\n")
    assert memory_available(tmp_path) == 4_096_000

    (tmp_path / "proc/self/cgroup").write_text("0::/box\n")
    (group / "memory.max").write_text("3000\n")
    (group / "memory.current").write_text("2500\n")
    (group / "memory.stat").write_text("anon 1\ninactive_file 400\n")

    assert memory_available(tmp_path) == 900


@pytest.mark.parametrize(
    ("seconds", "left", "reason"),
    [
        pytest.param(899.9, 1 << 40, "", id="soon"),
        pytest.param(900.1, 1 << 40, "15 minutes", id="late"),
        pytest.param(1.0, None, "", id="memory not known"),
        pytest.param(1.0, 1 << 20, "memory got short", id="memory short"),
    ],
)
def test_ranks_wait_for_a_quarter_of_an_hour_while_there_is_memory(
    seconds: float, left: int | None, reason: str
) -> None:
    now = [100.0]
    idle_policy = IdlePolicy(clock=lambda: now[0], available=lambda: left if now[0] > 100.0 else None)
    assert idle_policy.over() == ""

    now[0] += seconds

    assert reason in idle_policy.over()
    assert bool(idle_policy.over()) is bool(reason)


def test_spare_processors_are_those_that_idled_within_the_limits_of_the_control_group(tmp_path) -> None:
    now, ticks = [0.0], os.sysconf("SC_CLK_TCK")
    group = tmp_path / "group"
    for place in (group, tmp_path / "proc"):
        place.mkdir()
    (group / "cpu.max").write_text("150000 100000")
    own = sorted(os.sched_getaffinity(0))[:1]

    def tell(idle: float, used: float) -> None:
        rows = [f"cpu{n} 0 0 0 {round(idle * ticks)} 0 0" for n in (*own, 4711)]
        (tmp_path / "proc/stat").write_text("\n".join(["cpu 1 1 1 1 1 1", *rows, "intr 1"]))
        (group / "cpu.stat").write_text(f"usage_usec {round(used * 1e6)}\n")

    tell(0.0, 0.0)
    spare = SpareCpus(tmp_path, groups=[str(group)], clock=lambda: now[0])
    looks = []
    for now[0], idle, used in ((0.1, 0.1, 0.0), (2.0, 1.8, 0.0), (4.0, 3.8, 2.5), (6.0, 3.8, 2.5)):
        tell(idle, used)
        looks.append(round(spare.look(), 2))

    assert looks == [0.0, 0.9, 0.25, 0.0]


def test_beside_a_run_ranks_begin_when_processors_are_idle_or_when_the_run_has_ended() -> None:
    preload = {"modules": [], "first": "", "python_path": [], "unseen": []}
    idle = [0.9]

    def standby(weights: bool = False, **how: bool) -> StandbySupervisor:
        offer = {"spec": a_spec(ranks=1).to_dict(), "preload": preload, **how}
        policy = IdlePolicy(spare=lambda: idle[0], weights=weights)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            return StandbySupervisor(offer, Line(ours), ours, idle_policy=policy)

    awaiting = standby(beside=True, hurry=False)
    assert not awaiting.may_begin()
    assert standby(beside=True, hurry=True).may_begin()
    assert standby(beside=False, hurry=False).may_begin()
    assert standby(beside=True, hurry=False, weights=True).may_begin()

    idle[0] = 1.0
    assert awaiting.may_begin()

    idle[0] = 0.0
    awaiting.obey({"hurry": True})
    assert awaiting.may_begin()


def test_a_share_is_given_back_although_the_system_is_busy_with_other_shares(monkeypatch) -> None:
    # the kernel takes one such change in a tenth of a second from all users together, else EAGAIN
    refused, weights = [BlockingIOError()] * 40, []

    def write_text(path: Path, text: str) -> None:
        if refused:
            raise refused.pop()
        weights.append((str(path), text))

    monkeypatch.setattr(Path, "write_text", write_text)

    put_beside(4711)

    assert weights == [("/proc/4711/autogroup", "0")]


def test_a_process_is_put_behind_others_and_beside_them_again() -> None:
    idle_policy = IdlePolicy()
    if not idle_policy.weights:
        pytest.skip("this system does not weigh sessions")
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        autogroup = Path(f"/proc/{process.pid}/autogroup")

        put_last(process.pid)
        last = autogroup.read_text()
        put_beside(process.pid)

        assert last.endswith("nice 19\n")
        assert autogroup.read_text().endswith("nice 0\n")
        process.kill()
