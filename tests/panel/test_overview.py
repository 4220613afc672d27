"""Overviews: runs, who uses the machine's GPUs, warm ranks."""

from __future__ import annotations

from dataclasses import fields, replace

from nbdist.feed.machine import GpuState, Holder, MachineState
from nbdist.feed.view import RunView
from nbdist.panel import Overview
from nbdist.panel.status import StatusView
from nbdist.warm.state import WarmState
from tests.fakes.runs import CREATED
from tests.fakes.views import a_rank, a_run

OTHERS = Holder(pid=7310, memory=38_000_000_000, name="python3", run_id=None, user="eva")
OURS = Holder(pid=4001, memory=11_000_000_000, name="python", run_id="20261120-141503-lenet-k3f9", user="ada")


def a_gpu(index: int, *holders: Holder, memory: int = 0) -> GpuState:
    return GpuState(
        index=index,
        name="NVIDIA H200",
        memory=memory,
        memory_total=141_000_000_000,
        utilisation=91.0,
        temperature=61.0,
        holders=holders,
    )


GPUS = (a_gpu(0, OURS), a_gpu(1), a_gpu(2, OTHERS, memory=38_000_000_000), a_gpu(3, memory=9_000_000_000))


def an_overview(view: RunView, gpus: tuple[GpuState, ...] = GPUS, **more: object) -> Overview:
    listed = StatusView(**{of_run.name: getattr(view, of_run.name) for of_run in fields(RunView)})
    machine = MachineState(gpus=gpus, cores=96, cpu=34.0, memory=12_000_000_000, memory_total=64_000_000_000)
    given = {"views": [replace(listed, **more)], "machine": machine, "warm": WarmState(mode="auto")}
    return Overview(now=CREATED, **given)


def test_each_gpu_names_who_uses_it_others_included_and_what_is_free() -> None:
    page = an_overview(a_run(1)).to_dict("en")

    assert [(row["device"], row["state"], row["last_line"]) for row in page["others"]] == [
        ("GPU 0 · H200", "In use", "lenet-k3f9 · 0"),
        ("GPU 1 · H200", "Free", ""),
        ("GPU 2 · H200", "In use", "python3 (7310, eva)"),
        ("GPU 3 · H200", "In use", ""),
    ]
    assert page["free"] == "1 of 4 GPUs free"
    assert page["summary"] == "1 live run · 1 rank"
    (row,) = page["runs"][0]["rows"]
    assert (row["device"], row["memory"], row["memory_share"]) == ("GPU 0 · H200", "11.2/80 GB", 0.14)


def test_a_run_of_an_engine_uses_no_gpu_of_this_machine() -> None:
    (gpu,) = an_overview(a_run(1), (a_gpu(0),), elsewhere=True).others("en")

    assert gpu["free"]


def test_what_is_in_trouble_is_counted() -> None:
    failed = a_run([a_rank(0), a_rank(1, state="failed", exit="exit 1")])
    page = an_overview(failed).to_dict("en")

    assert page["ill"] == "1 needs attention"
    assert [row["ill"] for row in page["runs"][0]["rows"]] == [False, True]
    assert an_overview(a_run(2)).to_dict("en")["ill"] == ""


def test_without_gpus_it_shows_the_cpu_and_warm_ranks_have_a_row() -> None:
    warm = WarmState(mode="auto", ranks=2, framework="torch", ready=True, shared=310_000_000)
    overview = replace(an_overview(a_run(1), ()), warm=warm, lines=["sweep lr: 3 of 8"])

    *_, machine, ready, sweep = overview.text("en").splitlines()

    assert machine.split()[:6] == ["machine", "CPU", "·", "96", "cores", "12.0/64"]
    assert " ".join(ready.split()) == "Ready Warm ranks 310 MB 2 ranks of torch for the next run"
    assert sweep == "sweep lr: 3 of 8"
    assert "预热进程" in overview.bundle("zh")["text/html"]
    assert "sweep lr: 3 of 8" in overview.bundle("zh")["text/html"]
