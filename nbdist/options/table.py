"""Every option, once: how it is written, how its value is read, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nbdist.options import meeting, values
from nbdist.schedulers.ray_address import parse_address
from nbdist.schedulers.slurm_options import parse_slurm


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: its spellings (the first is the one shown), its value, and what it does.

    ``aliases`` are what other launchers call it; they are accepted and not shown. A ``rare`` one is in
    the reference, and not in the README.
    """

    flags: tuple[str, ...]
    field: str
    help: str
    metavar: str = ""
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    parse: Callable[[str], object] = str
    many: bool = False
    rare: bool = False


OPTIONS: tuple[Option, ...] = (
    Option(
        flags=("-n", "--nproc"),
        field="nproc",
        metavar="N",
        parse=values.nproc,
        help="N ranks on the CPU",
    ),
    Option(
        flags=("--gpus",),
        field="gpus",
        metavar="0,1|all",
        parse=values.gpus,
        aliases=("--selected_gpus", "--devices"),
        help="one rank on each of these GPUs, by their ids in nvidia-smi",
    ),
    Option(
        flags=("--name",),
        field="name",
        metavar="NAME",
        parse=values.name,
        help="a name for the run",
    ),
    Option(
        flags=("-d", "--detach"),
        field="detach",
        help="return at once; the run goes on by itself",
    ),
    Option(
        flags=("--framework",),
        field="framework",
        metavar="NAME",
        choices=("auto", "torch", "paddle", "jax", "none"),
        help="auto (what the program imports), torch, paddle, jax, none",
    ),
    Option(
        flags=("--backend",),
        field="backend",
        rare=True,
        metavar="NAME",
        choices=("auto", "nccl", "gloo"),
        help="auto, nccl, gloo: the default of the process group",
    ),
    Option(
        flags=("--timeout",),
        field="timeout",
        metavar="TIME",
        parse=values.parse_duration,
        help="stop the run after 90s, 5m, 1h30m",
    ),
    Option(
        flags=("--hang-after",),
        field="hang_after",
        metavar="TIME",
        parse=values.hang_after,
        help="report a stall after 60s (the default), 5m, off",
    ),
    Option(
        flags=("--retries",),
        field="retries",
        metavar="N",
        parse=values.retries,
        help="after a failure, run again up to N times",
    ),
    Option(
        flags=("--memory",),
        field="memory",
        rare=True,
        metavar="SIZE",
        parse=values.memory,
        help="end a rank that takes more memory than 16G; needs control groups",
    ),
    Option(
        flags=("--env",),
        field="env",
        metavar="K=V",
        parse=values.env,
        many=True,
        help="set a variable in every rank (repeat for more)",
    ),
    Option(
        flags=("--args",),
        field="args",
        metavar='"…"',
        parse=values.args,
        help="sys.argv[1:] of the program",
    ),
    Option(
        flags=("--cwd",),
        field="cwd",
        rare=True,
        metavar="DIR",
        help="the ranks' working directory (the current one)",
    ),
    Option(
        flags=("--log-dir",),
        field="log_dir",
        rare=True,
        metavar="DIR",
        aliases=("--log_dir",),
        help="write workerlog.N there, too, a file a rank",
    ),
    Option(
        flags=("--nodes",),
        field="nodes",
        metavar="N",
        parse=meeting.count_of_nodes,
        help="N machines: run the same on each, with the same options",
    ),
    Option(
        flags=("--node-rank",),
        field="node_rank",
        rare=True,
        metavar="I",
        parse=meeting.node_rank,
        aliases=("--node_rank",),
        help="which of the machines this is, from 0",
    ),
    Option(
        flags=("--master",),
        field="master",
        rare=True,
        metavar="HOST:PORT",
        parse=meeting.address,
        many=True,
        help="where the machines meet: an address of node 0, and a free port there",
    ),
    Option(
        flags=("--ips",),
        field="ips",
        rare=True,
        metavar="A,B",
        parse=meeting.addresses,
        help="the machines' addresses, instead of these three",
    ),
    Option(
        flags=("--host",),
        field="host",
        rare=True,
        metavar="ADDRESS",
        help="this machine's own address, where it has several",
    ),
    Option(
        flags=("--wait",),
        field="wait",
        rare=True,
        metavar="TIME",
        parse=values.wait,
        help="how long the other machines are awaited (10m)",
    ),
    Option(
        flags=("--on",),
        field="engine",
        metavar="ENGINE",
        choices=("local", "slurm", "ray"),
        help="local: here; slurm, ray: as a job, on --nodes N, each with -n or --gpus ranks",
    ),
    Option(
        flags=("--slurm",),
        field="slurm",
        rare=True,
        metavar="K=V,…",
        parse=parse_slurm,
        help="options of sbatch: partition=gpu,time=1:00:00,account=lab",
    ),
    Option(
        flags=("--ray",),
        field="ray",
        rare=True,
        metavar="ADDRESS",
        parse=parse_address,
        help="where the dashboard of Ray is: http://head:8265 (RAY_API_SERVER_ADDRESS)",
    ),
    Option(
        flags=("--scrape", "--no-scrape"),
        field="scrape",
        help="curves of the numbers that the program prints (on)",
    ),
    Option(flags=("--no-panel",), field="panel", help="plain text instead of the panel"),
    Option(flags=("--no-check",), field="check", help="start without looking for mistakes in the program"),
    Option(
        flags=("--warm", "--cold"),
        field="warm",
        help="use ranks that wait with their imports done, or start new ones",
        rare=True,
    ),
    Option(
        flags=("--show-ranks",),
        field="show_ranks",
        rare=True,
        metavar="0,1",
        parse=values.ranks_to_show,
        help="of the plain text, the lines of these ranks of a machine alone",
    ),
)
