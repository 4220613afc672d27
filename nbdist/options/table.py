"""The options, defined once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from nbdist.engines.options import parse_address, parse_slurm
from nbdist.options import values
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
        parse=values.count_of_nodes,
    ),
    Option(
        flags=("--node-rank",),
        field="node_rank",
        rare=True,
        metavar="I",
        parse=values.node_rank,
        aliases=("--node_rank",),
    ),
    Option(
        flags=("--master",),
        field="master",
        rare=True,
        metavar="HOST:PORT",
        parse=values.address,
        many=True,
    ),
    Option(
        flags=("--ips",),
        field="ips",
        rare=True,
        metavar="A,B",
        parse=values.addresses,
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


def help_text(usage: str = "%%distributed [options]", *, without: Collection[str] = ()) -> str:
    """The options below ``usage`` as a table of text, but for the fields in ``without``."""
    shown = [option for option in OPTIONS if option.field not in without]
    rows = [(", ".join(o.flags) + (f" {o.metavar}" if o.metavar else ""), o.help.en) for o in shown]
    width = max(len(left) for left, _ in rows)
    return "\n".join([usage, *(f"  {left:<{width}}  {right}" for left, right in rows)])


def markdown_table(*, rare: bool = False) -> str:
    """The options as the table of the README; with the ``rare`` ones, of the reference."""
    lines = ["| Option | What it does |", "|---|---|"]
    for option in OPTIONS:
        if option.rare and not rare:
            continue
        written = f"{', '.join(option.flags)} {option.metavar}".rstrip()
        # a bare | would end the table's cell
        cells = [cell.replace("|", r"\|") for cell in (f"`{written}`", option.help.en)]
        lines.append(f"| {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def option_list() -> list[dict[str, object]]:
    """``OptionList`` in openapi.yaml: for pages that complete options, or make a form of them."""
    return [
        {
            "flags": list(option.flags),
            "metavar": option.metavar,
            "help": option.help._asdict(),
            "choices": list(option.choices),
            "many": option.many,
        }
        for option in OPTIONS
    ]
