"""The verbs, each once. Their texts write verbs as a notebook does."""

from __future__ import annotations

from typing import Any

from nbdist.engines.options import parse_slurm
from nbdist.feed.waiting import parse_moments
from nbdist.options import table
from nbdist.verbs import machines, runs, sessions
from nbdist.verbs.verb import NOTEBOOK, TERMINAL, Argument, Verb

_RUN, _RUNS = Argument("RUN"), Argument("RUN …")

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
            "--watch",
            "keep the table up to date until all have ended; Ctrl-C leaves it",
            either="form",
            only=TERMINAL,
        ),
        Argument("--json", "a list with one object a run", either="form", only=TERMINAL),
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
        Argument("--rank R", "only this rank", parse=int),
        Argument("--tail N", "only the last N lines of each rank", parse=runs.line_count),
        Argument("--grep PATTERN", "only the lines that match this regular expression"),
        Argument("-f, --follow", "go on until the run has ended", only=TERMINAL),
        Argument(
            "--json",
            "one object a line, with rank, time and offset; a last one says from where to read on",
            only=TERMINAL,
        ),
        Argument(
            "--since OFFSET",
            "with --json: from this byte on, for each rank 0:4096,1:80; 0: from the first attempt",
            parse=runs.log_places,
            only=TERMINAL,
        ),
    ),
    act=runs.logs,
)

EXPLAIN = Verb(
    name="explain",
    about="why a run stands as it does: its first failure, what holds it up",
    text="""\
How a run (the latest) stands and why: the rank that failed first, its line of the program, cause and
fix where they are known; where the ranks of a stalled run are, and which is the slowest; where the time
goes.""",
    arguments=(_RUN, Argument("--json", "one object of at most 2 kB", only=TERMINAL)),
    act=runs.explain,
)

WAIT = Verb(
    name="wait",
    about="wait for the end of a run, for its failure, a stall, a step",
    text="""\
Wait until one of these moments of a run (the latest) has come, and print which: running, stalled (while
it lasts), failed (a rank, in any attempt), succeeded, ended, step=N (every rank that records steps with
nbdist.log, or prints them, has come so far). What has come before counts.""",
    arguments=(
        _RUN,
        Argument(
            "--until MOMENTS",
            "the first of these, with commas: failed,stalled,step=500 (ended)",
            parse=parse_moments,
            default=("ended",),
        ),
        Argument("--timeout TIME", "wait at most 90s, 5m, 1h30m", parse=table.parse_duration),
        Argument("--json", "one object", only=TERMINAL),
    ),
    exits="0 when a moment has come; 1 when the run ended without; 124 when the time is over.",
    act=runs.wait,
)

METRICS = Verb(
    name="metrics",
    about="the last values of a run's metrics",
    text="""\
What the ranks of a run (the latest), or of several, recorded with nbdist.log or printed last: the mean
over the ranks.""",
    arguments=(
        _RUNS,
        Argument("--last N", "the last N points of each (1)", parse=runs.point_count, default=1),
        Argument("--json", "a list with one object a run", only=TERMINAL),
    ),
    act=runs.metrics,
)

COMPARE = Verb(
    name="compare",
    about="runs beside each other: what differs, metrics, programs",
    text="""\
How runs differ: how they ended, their metrics (the last value, the best, and the one at the step where
the shortest ended), hyperparameters, arguments, options, inputs, commit, versions and machine, where
their time went; and the lines in which their programs differ from the first. One run is compared with
the latest other one; without a name, the latest with the one before.""",
    arguments=(
        _RUNS,
        Argument("--all", "also what the runs have in common"),
        Argument("--step N", "the metrics at step N", parse=runs.step_number),
        Argument("--json", "one object", only=TERMINAL),
    ),
    act=runs.compare,
)

STOP = Verb(
    name="stop",
    about="stop a run, or all, and wait for the end",
    text="Stop a run (the latest that goes on) and wait for its end: SIGINT, then SIGTERM, then SIGKILL.",
    arguments=(
        Argument("RUN", either="which"),
        Argument("--all", "every run that goes on", either="which"),
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
        Argument("--threads", "all threads, not the main one alone"),
        Argument("--native", "the frames of native code, too, by py-spy where it is installed and allowed"),
        Argument("--json", "one object", only=TERMINAL),
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

RESUME = Verb(
    name="resume",
    about="go on from a run that has ended: its program, options, inputs and checkpoints",
    text="""\
Start the program of a run (the latest) once more, as a new run: with the same options, inputs and
directory of checkpoints. nbdist.latest_checkpoint() gives the program the one that was finished last.
Options behind the run replace its own.""",
    form="[RUN] [options]",
    more=(
        ("RUN", "a run that has ended"),
        ("options", "as for a cell or script:  --gpus 2,3 --retries 3"),
    ),
    exits="as for nbdist run.",
    act=runs.resume,
)

BOARD: Verb[Any] = Verb(
    name="board",
    about="the curves of runs in VisualDL, or a report of them as a file",
    text="""\
The curves of a run (the latest) or several, in VisualDL: below the cell, or by the address that is
printed. The server is this user's alone, and ends when no browser asks it any more.""",
    arguments=(
        _RUNS,
        Argument("--tensorboard", "in TensorBoard, where it is installed", either="form"),
        Argument(
            "--export FILE.html",
            "write what there is about the runs to one file that opens without a network: the\n"
            "summary, curves, pictures, logs, the program; a report that is there is replaced",
            either="form",
        ),
        Argument("--stop", "end the server now", either="form"),
        Argument(
            "--height PIXELS", "of the frame below the cell (700)", parse=int, default=700, only=NOTEBOOK
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

What a terminal has asked for lasts until %dist_alloc off, --idle, or the end of the time that Slurm
gave (--slurm time=…). What a notebook has asked for ends with its kernel, too, unless it said --keep.""",
    form="--nodes 2 -n 1 [--gpus N] [--slurm K=V,…] [--idle 15m]  or  {} off",
    more=(
        ("off [JOB]", "give them back now; with its number, that of another notebook, too"),
        ("--nodes N", "so many nodes (1)"),
        ("-n N, --gpus N", "each for so many ranks"),
        ("--slurm K=V,…", "options of sbatch:  --slurm partition=gpu,time=8:00:00"),
    ),
    arguments=(
        Argument(
            "--idle TIME", "give them back when nothing has run in them for so long (15m)", parse=table.idle
        ),
        Argument(
            "--wait TIME",
            "wait for them so long (1m); alone: for those that are in the queue already",
            parse=table.wait,
        ),
        Argument("--keep", "do not give them back when the kernel ends"),
        Argument("--json", "what there is, as a list with one object an allocation", only=TERMINAL),
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
            "--smoke", "start a run of two ranks for each framework, and VisualDL, and say how long they take"
        ),
        Argument(
            "--fix",
            "mend what can be mended: copy the JupyterLab extension to where this\nuser's JupyterLab looks",
        ),
        Argument("--json", "one object, with a list of entries", only=TERMINAL),
        Argument(
            "--on slurm|ray",
            "look at the cluster instead: its commands, partition and account, and by a small job\n"
            "whether its nodes see the same files, have the same packages and reach each other",
        ),
        Argument("--nodes N", "on so many nodes (2)", parse=table.count_of_nodes),
        Argument(
            "--slurm K=V,…",
            "options of sbatch, as for a run:  --slurm partition=gpu,account=NAME",
            parse=parse_slurm,
        ),
        Argument("--ray URL", "the head of a Ray cluster:  --ray http://head:8265", rare=True),
        Argument(
            "--wait TIME", "let the job stand in the queue for so long (60s)", parse=table.wait, rare=True
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
        Argument("--to DIR", "where to write it: by default a folder with the run's name, here"),
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
        Argument("N|auto|off", name="count"),
        Argument(
            "--framework torch|paddle|jax",
            "which they import: by default the one that is installed",
            choices=("torch", "paddle", "jax"),
        ),
    ),
    act=machines.warm,
)

SESSION = Verb(
    name="session",
    about="live ranks (%%ranks): idle or busy, cells, memory, age; interrupt, rejoin, reset, end",
    text="""\
How the ranks are that live from cell to cell: what they execute, how many cells they have executed,
their memory. The session is the one of this notebook, else the latest.

A session ends itself when it has had no cell for a while (%%ranks --idle, 30 minutes).""",
    form="[interrupt | rejoin | reset | end] [--run RUN]",
    arguments=(
        Argument(
            "interrupt|rejoin|reset|end",
            "interrupt: the cell that is executed; its ranks keep their variables\n"
            "rejoin: leave the process group, and join a new one\n"
            "reset, end: end the ranks, with what they hold",
            name="do",
        ),
        Argument("--run RUN", "the session of this name"),
    ),
    act=sessions.session,
)

VERBS: tuple[Verb[Any], ...] = (
    STATUS,
    LOGS,
    EXPLAIN,
    COMPARE,
    STOP,
    STACKS,
    ATTACH,
    BOARD,
    ALLOC,
    DOCTOR,
    EXPORT,
    RESUME,
    SESSION,
    WARM,
)
"""Every verb of a notebook; WARM is about a kernel, and a terminal has none. WAIT and METRICS are only for a
terminal: a notebook has run.wait() and run.metrics()."""
