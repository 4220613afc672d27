"""The verbs, each once. Their texts write verbs as a notebook does."""

from __future__ import annotations

from typing import Any

from nbdist.verbs import machines, runs
from nbdist.verbs.verb import NOTEBOOK, TERMINAL, Argument, Verb

_RUN = Argument(name="run", metavar="RUN")
_RUNS = Argument(name="run", metavar="RUN", many=True)

STATUS = Verb(
    name="status",
    about="the latest runs, or these, with their ranks",
    text="""\
The latest ten runs, or these. Runs that go on, and one alone, with their ranks: state, device, pid,
memory, use, step/s, elapsed, last line; others with their notebook, when they ended, and their main
metric; and the nodes of Slurm that are kept (%dist_alloc). In a notebook the table is kept up to date
until all have ended.""",
    arguments=(
        _RUNS,
        Argument(
            name="--watch",
            help="keep the table up to date until all have ended; Ctrl-C leaves it",
            either="form",
            only=TERMINAL,
        ),
        Argument(name="--json", help="a list with one object a run", either="form", only=TERMINAL),
    ),
    act=runs.status,
)

LOGS = Verb(
    name="logs",
    about="what the ranks have written",
    text="""\
What the ranks of a run (the latest) have written, from disk. Each line has its rank in front; in a
terminal, with --rank R, there are only the lines of that rank, as it wrote them.""",
    arguments=(
        _RUN,
        Argument(name="--rank", metavar="R", parse=int, help="only this rank"),
        Argument(
            name="--tail", metavar="N", parse=runs.line_count, help="only the last N lines of each rank"
        ),
        Argument(name="--grep", metavar="PATTERN", help="only the lines that match this regular expression"),
        Argument(name="--follow", short="-f", help="go on until the run has ended", only=TERMINAL),
    ),
    act=runs.logs,
)

STOP = Verb(
    name="stop",
    about="stop a run, or all, and wait for the end",
    text="Stop a run (the latest that goes on) and wait for its end: SIGINT, then SIGTERM, then SIGKILL.",
    arguments=(
        Argument(name="run", metavar="RUN", either="which"),
        Argument(name="--all", help="every run that goes on", either="which"),
    ),
    exits="0 when all have ended, 1 when one goes on, 2 when there is no such run that goes on.",
    act=runs.stop,
)

STACKS = Verb(
    name="stacks",
    about="where every rank of a run is now",
    text="""\
Where every rank of a run (the latest) is now; ranks with the same stack stand together. The ranks are
not stopped, and one that is stuck in native code is seen, too. Of a run that has ended, the stacks that
were taken last.""",
    arguments=(
        _RUN,
        Argument(name="--threads", help="all threads, not the main one alone"),
        Argument(
            name="--native",
            help="the frames of native code, too, by py-spy where it is installed and allowed",
        ),
        Argument(name="--json", help="one object", only=TERMINAL),
    ),
    exits="0, or 1 when the run did not answer or has no stacks.",
    act=runs.stacks,
)

ATTACH = Verb(
    name="attach",
    about="follow a run; Ctrl-C leaves it running",
    text="""\
Show a run (the latest) from its first line until it ends: in another terminal or notebook, or after a
restart of the kernel. The run belongs to the process that started it: to leave the view, or to interrupt
it with Ctrl-C, ends nothing.""",
    arguments=(_RUN,),
    exits="as for nbdist run; 130 after Ctrl-C.",
    act=runs.attach,
)

BOARD: Verb[Any] = Verb(
    name="board",
    about="the curves of runs in VisualDL, or a report of them as a file",
    text="""\
The curves of a run (the latest) or several, in VisualDL: below the cell, or by the address that is
printed. The server is this user's alone, and ends when no browser asks it any more.""",
    arguments=(
        _RUNS,
        Argument(name="--tensorboard", help="in TensorBoard, where it is installed", either="form"),
        Argument(
            name="--export",
            metavar="FILE.html",
            help="write what there is about the runs to one file that opens without a network: the\n"
            "summary, curves, pictures, logs, the program; a report that is there is replaced",
            either="form",
        ),
        Argument(name="--stop", help="end the server now", either="form"),
        Argument(
            name="--height",
            metavar="PIXELS",
            parse=int,
            default=700,
            help="of the frame below the cell (700)",
            only=NOTEBOOK,
        ),
    ),
    act=runs.board,
)

ALLOC: Verb[Any] = Verb(
    name="alloc",
    about="nodes of Slurm that are kept for the next runs",
    text="""\
Wait in Slurm's queue once, for many runs: cells with --on slurm, and nbdist run --on slurm, that need no
more than these nodes then begin in them at once. Without options: what there is.

What a terminal has asked for lasts until %dist_alloc off, --idle, or the end of the time that Slurm gave
(--slurm time=…). What a notebook has asked for ends with its kernel, too, unless it said --keep.""",
    form="--nodes 2 -n 1 [--gpus N] [--slurm K=V,…] [--idle 15m]  or  {} off",
    more=(
        ("off [JOB]", "give them back now; with its number, that of another notebook, too"),
        ("--nodes N", "so many nodes (1)"),
        ("-n N, --gpus N", "each for so many ranks"),
        ("--slurm K=V,…", "options of sbatch:  --slurm partition=gpu,time=8:00:00"),
    ),
    arguments=(
        Argument(
            name="--idle",
            metavar="TIME",
            help="give them back when nothing has run in them for so long (15m)",
        ),
        Argument(
            name="--wait",
            metavar="TIME",
            help="wait for them so long (1m); alone: for those that are in the queue already",
        ),
        Argument(name="--keep", help="do not give them back when the kernel ends"),
        Argument(name="--json", help="what there is, as a list with one object an allocation", only=TERMINAL),
    ),
    act=machines.alloc,
)

DOCTOR = Verb(
    name="doctor",
    about="what works on this machine, what does not, and how to mend it",
    text="""\
Look at Python, frameworks, GPUs, memory, disk, network, notebook and VisualDL, and say what to type
where something is missing. Frameworks that are installed are asked in processes of their own.""",
    arguments=(
        Argument(
            name="--smoke",
            help="start a run of two ranks for each framework, and VisualDL, and say how long they take",
        ),
        Argument(
            name="--fix",
            help="mend what can be mended: copy the JupyterLab extension to where this\n"
            "user's JupyterLab looks",
        ),
        Argument(name="--json", help="one object, with a list of entries", only=TERMINAL),
        Argument(
            name="--on",
            metavar="slurm|ray",
            default="",
            help="look at the cluster instead: its commands, partition and account, and by a small job\n"
            "whether its nodes see the same files, have the same packages and reach each other",
        ),
        Argument(name="--nodes", metavar="N", default="", help="on so many nodes (2)"),
        Argument(
            name="--slurm",
            metavar="K=V,…",
            default="",
            help="options of sbatch, as for a run:  --slurm partition=gpu,account=NAME",
        ),
        Argument(
            name="--ray",
            metavar="URL",
            default="",
            rare=True,
            help="the head of a Ray cluster:  --ray http://head:8265",
        ),
        Argument(
            name="--wait",
            metavar="TIME",
            default="",
            rare=True,
            help="let the job stand in the queue for so long (60s)",
        ),
    ),
    exits="0, or 1 where something does not work.",
    act=machines.doctor,
)

EXPORT = Verb(
    name="export",
    about="a run as a script, for torchrun, paddle's launcher or Slurm",
    text="""\
Write a run (the latest) as a script, and what starts it with torchrun, with paddle's launcher (fleetrun)
or under Slurm (sbatch). The command lines are printed.""",
    arguments=(
        _RUN,
        Argument(
            name="--to",
            metavar="DIR",
            help="where to write it: by default a folder with the run's name, here",
        ),
    ),
    act=runs.export,
)

WARM = Verb(
    name="warm",
    about="ranks that wait with their imports done, for the next run to begin at once",
    text="""\
Keep N ranks ready for the next cell: they have imported the framework and wait; a cell with -n N then
runs at once, in processes that have run nothing else. auto makes as many ready as the last cell had, off
lets them go; %dist_warm alone says what there is.""",
    arguments=(
        Argument(name="count", metavar="N|auto|off"),
        Argument(
            name="--framework",
            metavar="torch|paddle|jax",
            choices=("torch", "paddle", "jax"),
            default="",
            help="which they import: by default the one that is installed",
        ),
    ),
    act=machines.warm,
)

VERBS: tuple[Verb[Any], ...] = (STATUS, LOGS, STOP, STACKS, ATTACH, BOARD, ALLOC, DOCTOR, EXPORT, WARM)
"""Every verb. WARM is about a kernel, and so in notebooks alone."""
