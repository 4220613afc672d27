"""The ranks' use of memory, and the memory that came back."""

from __future__ import annotations

from nbdist.devices.gpus import GpuUse
from nbdist.devices.usage import TreeUsage
from nbdist.feed.view import RankUsage, UsageWatch
from nbdist.model import Device, ProcessId, Run
from tests.fakes import runs

GPUS = (Device(kind="gpu", index=0), Device(kind="gpu", index=2))
STARTED = (runs.supervisor_started(), runs.attempt_started(), runs.rank_started(0), runs.rank_started(1))


class Machine:
    """Two GPUs, and the holders of their memory."""

    def __init__(self, *uses: GpuUse) -> None:
        self.uses = list(uses)

    def holders(self) -> list[GpuUse]:
        return self.uses

    @staticmethod
    def tree(process: ProcessId) -> TreeUsage:
        """Return a rank with one child, whose pid is a thousand more."""
        return TreeUsage(memory=500, pids=frozenset({process.pid, process.pid + 1000}))

    def watch(self) -> UsageWatch:
        return UsageWatch(holders=self.holders, tree=self.tree, name=lambda _: "python")


def of_rank(rank: int, memory: int, *, index: int, child: bool = False) -> GpuUse:
    return GpuUse(index=index, pid=runs.process_of(rank).pid + 1000 * child, memory=memory)


def test_a_rank_on_the_cpu_has_no_gpu_memory() -> None:
    usages = Machine().watch().look(Run.of(runs.a_spec(), STARTED))

    assert usages == {0: RankUsage(memory=500), 1: RankUsage(memory=500)}


def test_gpu_memory_of_a_rank_is_that_of_its_process_tree() -> None:
    machine = Machine(
        of_rank(0, 4, index=0),
        of_rank(0, 3, index=0, child=True),
        of_rank(1, 5, index=2),
        GpuUse(index=0, pid=1, memory=99),
    )

    usages = machine.watch().look(Run.of(runs.a_spec(devices=GPUS), STARTED))

    assert [usages[rank].gpu_memory for rank in (0, 1)] == [7, 5]


def test_the_report_says_what_came_back() -> None:
    machine = Machine(of_rank(0, 4_000_000_000, index=0), of_rank(1, 5_500_000_000, index=2))
    watch = machine.watch()
    watch.look(Run.of(runs.a_spec(devices=GPUS), STARTED))

    machine.uses = []

    assert watch.report("en") == ["GPU 0: 4.0 GB came back", "GPU 2: 5.5 GB came back"]


def test_the_report_says_who_still_holds_memory() -> None:
    machine = Machine(of_rank(0, 4_000_000_000, index=0), of_rank(1, 5_000_000_000, index=2))
    watch = machine.watch()
    watch.look(Run.of(runs.a_spec(devices=GPUS), STARTED))

    machine.uses = [of_rank(1, 1_000_000_000, index=2), GpuUse(index=7, pid=1, memory=9)]

    pid = runs.process_of(1).pid
    assert watch.report("en") == [
        "GPU 0: 4.0 GB came back",
        "GPU 2: 4.0 GB came back",
        f"GPU 2: 1.0 GB still held by python (pid {pid})",
    ]


def test_of_several_that_hold_memory_the_largest_is_named() -> None:
    machine = Machine(of_rank(0, 10_000_000, index=0))
    watch = machine.watch()
    watch.look(Run.of(runs.a_spec(devices=GPUS), STARTED))

    machine.uses = [GpuUse(index=0, pid=pid, memory=pid * 100_000_000) for pid in (7, 9, 8)]
    machine.uses.append(GpuUse(index=0, pid=10, memory=1_000_000))

    line = "GPU 0: 2.4 GB still held by 3 processes, 0.9 GB of it by python (pid 9)"
    assert watch.report("en") == [line]


def test_nothing_is_said_of_gpus_after_a_run_on_the_cpu() -> None:
    watch = Machine(GpuUse(index=0, pid=1, memory=99)).watch()
    watch.look(Run.of(runs.a_spec(), STARTED))

    assert watch.report("en") == []
