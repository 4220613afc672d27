"""Every option, once: how it is written, how its value is read, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nbdist.options import meeting, values
from nbdist.schedulers.ray_address import parse_address
from nbdist.schedulers.slurm_options import parse_slurm
from nbdist.text import Both, both


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: its spellings (the first is the one shown), its value, and what it does (``options.toml``).

    ``aliases`` are what other launchers call it; they are accepted and not shown. A ``rare`` one is in
    the reference, and not in the README.
    """

    flags: tuple[str, ...]
    field: str
    metavar: str = ""
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    parse: Callable[[str], object] = str
    many: bool = False
    rare: bool = False

    @property
    def help(self) -> Both:
        """What it does."""
        return both(f"options.{self.field}")


OPTIONS: tuple[Option, ...] = (
    Option(
        flags=("-n", "--nproc"),
        field="nproc",
        metavar="N",
        parse=values.nproc,
    ),
    Option(
        flags=("--gpus",),
        field="gpus",
        metavar="0,1|all",
        parse=values.gpus,
        aliases=("--selected_gpus", "--devices"),
    ),
    Option(
        flags=("--name",),
        field="name",
        metavar="NAME",
        parse=values.name,
    ),
    Option(
        flags=("-d", "--detach"),
        field="detach",
    ),
    Option(
        flags=("--framework",),
        field="framework",
        metavar="NAME",
        choices=("auto", "torch", "paddle", "jax", "none"),
    ),
    Option(
        flags=("--backend",),
        field="backend",
        rare=True,
        metavar="NAME",
        choices=("auto", "nccl", "gloo"),
    ),
    Option(
        flags=("--timeout",),
        field="timeout",
        metavar="TIME",
        parse=values.parse_duration,
    ),
    Option(
        flags=("--hang-after",),
        field="hang_after",
        metavar="TIME",
        parse=values.hang_after,
    ),
    Option(
        flags=("--retries",),
        field="retries",
        metavar="N",
        parse=values.retries,
    ),
    Option(
        flags=("--memory",),
        field="memory",
        rare=True,
        metavar="SIZE",
        parse=values.memory,
    ),
    Option(
        flags=("--env",),
        field="env",
        metavar="K=V",
        parse=values.env,
        many=True,
    ),
    Option(
        flags=("--args",),
        field="args",
        metavar='"…"',
        parse=values.args,
    ),
    Option(
        flags=("--cwd",),
        field="cwd",
        rare=True,
        metavar="DIR",
    ),
    Option(
        flags=("--log-dir",),
        field="log_dir",
        rare=True,
        metavar="DIR",
        aliases=("--log_dir",),
    ),
    Option(
        flags=("--nodes",),
        field="nodes",
        metavar="N",
        parse=meeting.count_of_nodes,
    ),
    Option(
        flags=("--node-rank",),
        field="node_rank",
        rare=True,
        metavar="I",
        parse=meeting.node_rank,
        aliases=("--node_rank",),
    ),
    Option(
        flags=("--master",),
        field="master",
        rare=True,
        metavar="HOST:PORT",
        parse=meeting.address,
        many=True,
    ),
    Option(
        flags=("--ips",),
        field="ips",
        rare=True,
        metavar="A,B",
        parse=meeting.addresses,
    ),
    Option(
        flags=("--host",),
        field="host",
        rare=True,
        metavar="ADDRESS",
    ),
    Option(
        flags=("--wait",),
        field="wait",
        rare=True,
        metavar="TIME",
        parse=values.wait,
    ),
    Option(
        flags=("--on",),
        field="engine",
        metavar="ENGINE",
        choices=("local", "slurm", "ray"),
    ),
    Option(
        flags=("--slurm",),
        field="slurm",
        rare=True,
        metavar="K=V,…",
        parse=parse_slurm,
    ),
    Option(
        flags=("--ray",),
        field="ray",
        rare=True,
        metavar="ADDRESS",
        parse=parse_address,
    ),
    Option(
        flags=("--scrape", "--no-scrape"),
        field="scrape",
    ),
    Option(flags=("--no-panel",), field="panel"),
    Option(flags=("--no-check",), field="check"),
    Option(
        flags=("--warm", "--cold"),
        field="warm",
        rare=True,
    ),
    Option(
        flags=("--show-ranks",),
        field="show_ranks",
        rare=True,
        metavar="0,1",
        parse=values.ranks_to_show,
    ),
)
