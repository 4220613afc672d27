"""The options, defined once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from nbdist.engines.options import parse_address, parse_slurm
from nbdist.options import values
from nbdist.text import Both, both


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its spellings (the first is the one shown), its value, and what it does (``options.toml``).

    ``aliases`` are what other launchers call it; they are accepted and not shown. A ``rare`` one is in
    the reference, and not in the README.
    """

    flags: tuple[str, ...]
    field: str
    metavar: str = ""
    parse: Callable[[str], object] = str
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    many: bool = False
    rare: bool = False

    @property
    def help(self) -> Both:
        """What it does."""
        return both(f"options.{self.field}")


OPTIONS: tuple[Option, ...] = (
    Option(("-n", "--nproc"), "nproc", "N", values.nproc),
    Option(("--gpus",), "gpus", "0,1|all", values.gpus, aliases=("--selected_gpus", "--devices")),
    Option(("--name",), "name", "NAME", values.name),
    Option(("-d", "--detach"), "detach"),
    Option(("--framework",), "framework", "NAME", choices=("auto", "torch", "paddle", "jax", "none")),
    Option(("--backend",), "backend", "NAME", rare=True, choices=("auto", "nccl", "gloo")),
    Option(("--timeout",), "timeout", "TIME", values.parse_duration),
    Option(("--hang-after",), "hang_after", "TIME", values.hang_after),
    Option(("--retries",), "retries", "N", values.retries),
    Option(("--memory",), "memory", "SIZE", values.memory, rare=True),
    Option(("--env",), "env", "K=V", values.env, many=True),
    Option(("--args",), "args", '"…"', values.args),
    Option(("--cwd",), "cwd", "DIR", rare=True),
    Option(("--log-dir",), "log_dir", "DIR", rare=True, aliases=("--log_dir",)),
    Option(("--nodes",), "nodes", "N", values.count_of_nodes),
    Option(("--node-rank",), "node_rank", "I", values.node_rank, rare=True, aliases=("--node_rank",)),
    Option(("--master",), "master", "HOST:PORT", values.address, rare=True, many=True),
    Option(("--ips",), "ips", "A,B", values.addresses, rare=True),
    Option(("--host",), "host", "ADDRESS", rare=True),
    Option(("--wait",), "wait", "TIME", values.wait, rare=True),
    Option(("--on",), "engine", "ENGINE", choices=("local", "slurm", "ray")),
    Option(("--slurm",), "slurm", "K=V,…", parse_slurm, rare=True),
    Option(("--ray",), "ray", "ADDRESS", parse_address, rare=True),
    Option(("--scrape", "--no-scrape"), "scrape"),
    Option(("--no-panel",), "panel"),
    Option(("--no-check",), "check"),
    Option(("--warm", "--cold"), "warm", rare=True),
    Option(("--show-ranks",), "show_ranks", "0,1", values.ranks_to_show, rare=True),
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
