"""The cases of panel.py: the programs whose lines are watched, and how each way of watching is used.

This module alone knows a notebook's cells. Every program is the same for all: a rank prints, records the
times in a file, and waits for a signal to end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from launch_cases import importable

BULK_RANKS, STREAM_RANKS = 8, 2

# As fast as it can: every line has its number, and the last one is another.
BULK = """\
import json, os, time
rank = int(os.environ.get("RANK", 0))
for i in range({lines}):
    print(f"rank {{rank}} line {{i}}: loss {{1 / (i + 1):.6f}} acc 0.9712 lr 0.001")
time.sleep(0.06 * rank)  # a clear order: the last of all is to be on the screen
print(f"rank {{rank}} last line", flush=True)
with open(f"{directory}/{{rank}}.json", "w") as file:
    json.dump([time.time()], file)
while not os.path.exists("{directory}/done"):
    time.sleep(0.05)
"""

# At an even pace: 500 lines a second from each rank.
STREAM = """\
import json, os, time
rank = int(os.environ.get("RANK", 0))
start, moments = time.time(), []
for i in range({lines}):
    time.sleep(max(0.0, start + i * 0.002 - time.time()))
    moments.append(time.time())
    print(f"rank {{rank}} line {{i}}: loss {{1 / (i + 1):.6f}} acc 0.9712", flush=True)
with open(f"{directory}/{{rank}}.json", "w") as file:
    json.dump(moments, file)
while not os.path.exists("{directory}/done"):
    time.sleep(0.05)
"""

# One after the other, as a loop with plt.show() in it.
FIGURES = """\
import json, os, time
import matplotlib.pyplot as plt
plt.switch_backend("agg")
fig, ax = plt.subplots(figsize=(4, 3))
(curve,) = ax.plot(range(100))
for i in range({lines}):
    curve.set_ydata([(i * at) % 97 for at in range(100)])
    ax.set_title(f"figure {{i}}")
    display(fig)
print("rank 0 last line", flush=True)
with open(f"{directory}/0.json", "w") as file:
    json.dump([time.time()], file)
while not os.path.exists("{directory}/done"):
    time.sleep(0.05)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Program that prints or shows ``lines`` on each rank, and records their times in a directory. ``peers``:
    others than nbdist can show it."""

    name: str
    program: str
    ranks: int
    lines: int
    peers: bool = True

    def source(self, directory: Path) -> str:
        return self.program.format(lines=self.lines, directory=directory)


Cells = Callable[[Load, Path], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelCase:
    """Way to see the lines. The last of ``cells`` is the one whose output is watched.

    ``region`` is the selector of what shows the lines, in that cell.
    """

    name: str
    cells: Cells
    needs: tuple[str, ...] = ()
    region: str = ".jp-OutputArea"
    waits_for_workers: bool = False

    def missing(self) -> list[str]:
        return [module for module in self.needs if not importable(module)]


def nbdist(load: Load, directory: Path) -> Sequence[str]:
    return ["%load_ext nbdist", f"%%distributed -n {load.ranks} --name bench\n{load.source(directory)}"]


def torchrun(load: Load, directory: Path) -> Sequence[str]:
    script = directory / "program.py"
    script.write_text(load.source(directory))
    return ["pass", f"!torchrun --nproc-per-node {load.ranks} --master-port 0 --rdzv-backend c10d {script}"]


def nbdistributed(load: Load, directory: Path) -> Sequence[str]:
    return [
        "%load_ext nbdistributed",
        f"%dist_init -n {load.ranks}",
        f"%%distributed\n{load.source(directory)}",
    ]


THREADS = """\
import json, os, subprocess, sys, threading
ranks = [
    subprocess.Popen(
        [sys.executable, "-u", "{script}"], env=os.environ | {{"RANK": str(rank)}},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    for rank in range({ranks})
]
{show}
def watch(rank):
    for line in ranks[rank].stdout:
        show(line)
watchers = [threading.Thread(target=watch, args=(rank,)) for rank in range({ranks})]
for watcher in watchers: watcher.start()
for watcher in watchers: watcher.join()
"""


def in_threads(load: Load, directory: Path, show: str) -> Sequence[str]:
    """Start ranks as child processes, with a thread for each that forwards its lines."""
    script = directory / "program.py"
    script.write_text(load.source(directory))
    return ["pass", THREADS.format(script=script, ranks=load.ranks, show=show)]


def plain_prints(load: Load, directory: Path) -> Sequence[str]:
    return in_threads(load, directory, 'def show(line): print(line, end="")')


def output_widget(load: Load, directory: Path) -> Sequence[str]:
    show = "import ipywidgets\nout = ipywidgets.Output()\ndisplay(out)\nshow = out.append_stdout"
    return in_threads(load, directory, show)


CASES = (
    PanelCase(name="nbdist", cells=nbdist, needs=("nbdist",), region="[role=log]"),
    PanelCase(name="!torchrun", cells=torchrun, needs=("torch",)),
    PanelCase(name="plain prints", cells=plain_prints),
    PanelCase(name="ipywidgets.Output", cells=output_widget, needs=("ipywidgets",)),
    PanelCase(
        name="nbdistributed",
        cells=nbdistributed,
        needs=("torch", "nbdistributed"),
        waits_for_workers=True,
    ),
)
