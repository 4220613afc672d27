"""The options of ``%%distributed``, once: for the magic, the command line, completion and the README."""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from nbdist.errors import UsageMistake
from nbdist.frameworks import launchers
from nbdist.schedulers.slurm_options import parse_slurm


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was typed behind ``%%distributed``, checked for itself (not yet against the machine).

    ``gpus`` is None where the option is left out, "all", or ids. ``timeout``, ``hang_after`` (0: never)
    and ``wait`` are in seconds.
    ``engine`` is where the run is started, ``slurm`` what Slurm is told, each ``key=value`` or ``key``.
    ``master`` is "host:port", either of which may be missing. ``any_device``: as another launcher does,
    ranks get GPUs where there are enough. ``notes`` say what of another launcher's flags has no effect.
    """

    nproc: int | None = None
    gpus: tuple[int, ...] | str | None = None
    framework: str = "auto"
    backend: str = "auto"
    name: str = ""
    detach: bool = False
    timeout: float | None = None
    hang_after: float = 60.0
    retries: int = 0
    env: tuple[tuple[str, str], ...] = ()
    args: tuple[str, ...] = ()
    cwd: str = ""
    log_dir: str = ""
    nodes: int | None = None
    node_rank: int | None = None
    master: str = ""
    ips: tuple[str, ...] = ()
    host: str = ""
    wait: float = 600.0
    engine: str = "local"
    slurm: tuple[str, ...] = ()
    scrape: bool = True
    panel: bool = True
    check: bool = True
    warm: bool | None = None
    show_ranks: tuple[int, ...] | None = None
    any_device: bool = False
    notes: tuple[str, ...] = ()


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


MODULE_FLAGS = ("-m", "--module")
"""What stands before the name of a module where a script could stand."""

COMMAND_FLAGS = ("--no-python", "--no_python")
"""What stands before a program that is not Python's."""

_MOST_RANKS = 1024


def _nproc(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise UsageMistake(f"-n {text}: that is not a number of ranks: write  -n 2") from None
    if number > _MOST_RANKS:
        raise UsageMistake(f"-n {number}: one machine gets at most {_MOST_RANKS} ranks: write  -n 2")
    if number < 1:
        raise UsageMistake(f"-n {number} starts no rank: write  -n 1  or more")
    return number


def _gpus(text: str) -> tuple[int, ...] | str:
    if text == "all":
        return "all"
    try:
        ids = tuple(int(part) for part in text.strip("\"'").split(",") if part.strip())
    except ValueError:
        ids = ()
    if not ids or min(ids) < 0:
        raise UsageMistake(
            f"--gpus {text}: give GPU ids as nvidia-smi shows them:  --gpus 0,1  or  --gpus all"
        )
    if len(set(ids)) < len(ids):
        raise UsageMistake(f"--gpus {text} names a GPU twice: give each id once")
    return ids


_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float:
    """Seconds in ``90``, ``90s``, ``5m``, ``1.5h`` or ``1h30m``. Raises UsageMistake."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or seconds <= 0:
        raise UsageMistake(f"--timeout {text}: write a time such as  --timeout 90s, 5m  or  1h30m")
    return seconds


def _hang_after(text: str) -> float:
    """Seconds; 0 for ``off``."""
    if text in ("off", "0"):
        return 0.0
    try:
        return parse_duration(text)
    except UsageMistake:
        raise UsageMistake(
            f"--hang-after {text}: write a time such as  --hang-after 90s  or 5m; --hang-after off for never"
        ) from None


def _retries(text: str) -> int:
    if not text.isdigit():
        raise UsageMistake(f"--retries {text}: write a number of times, for example  --retries 2")
    return int(text)


def _env(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
        raise UsageMistake(f"--env {text}: write  --env NAME=VALUE")
    return key, value


def _args(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageMistake(f'--args {text!r}: {error}; write  --args "--lr 0.1"') from None


def _count_of_nodes(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise UsageMistake(f"--nodes {text}: write a number of machines, for example  --nodes 2")
    return int(text)


def _node_rank(text: str) -> int:
    if not text.isdigit():
        raise UsageMistake(f"--node-rank {text}: number the machines from 0:  --node-rank 0")
    return int(text)


_STANDALONE = "-"


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":") if ":" in text else (text, "", "")
    good = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", host) or (colon and not host)
    if text != _STANDALONE and (not good or (colon and not (port.isdigit() and int(port) < 65535))):
        raise UsageMistake(f"--master {text}: write the address of node 0:  --master 10.0.0.1:29500")
    return text


def _addresses(text: str) -> tuple[str, ...]:
    addresses = tuple(part.strip() for part in text.split(",") if part.strip())
    if not addresses or len(set(addresses)) < len(addresses):
        raise UsageMistake(f"--ips {text}: write each machine's address once:  --ips 10.0.0.1,10.0.0.2")
    return addresses


def _wait(text: str) -> float:
    try:
        return parse_duration(text)
    except UsageMistake:
        raise UsageMistake(f"--wait {text}: write a time such as  --wait 90s, 5m  or  1h30m") from None


def _ranks_to_show(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageMistake(f"--show-ranks {text}: write ranks of this machine:  --show-ranks 0,1") from None


def slug(text: str) -> str:
    """``text`` as the name of a run, which is part of a path; empty when nothing of it can be."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")


def _name(text: str) -> str:
    name = slug(text)
    if not name:
        raise UsageMistake(f"--name {text!r}: a name needs a letter or digit:  --name lenet")
    return name


OPTIONS: tuple[Option, ...] = (
    Option(
        flags=("-n", "--nproc"),
        field="nproc",
        metavar="N",
        parse=_nproc,
        help="N ranks on the CPU",
    ),
    Option(
        flags=("--gpus",),
        field="gpus",
        metavar="0,1|all",
        parse=_gpus,
        aliases=("--selected_gpus", "--devices"),
        help="one rank on each of these GPUs, by their ids in nvidia-smi",
    ),
    Option(
        flags=("--framework",),
        field="framework",
        metavar="NAME",
        choices=("auto", "torch", "paddle", "none"),
        help="auto (what the program imports), torch, paddle, none",
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
        flags=("--name",),
        field="name",
        metavar="NAME",
        parse=_name,
        help="a name for the run",
    ),
    Option(
        flags=("-d", "--detach"),
        field="detach",
        help="return at once; the run goes on by itself",
    ),
    Option(
        flags=("--timeout",),
        field="timeout",
        metavar="TIME",
        parse=parse_duration,
        help="stop the run after 90s, 5m, 1h30m",
    ),
    Option(
        flags=("--hang-after",),
        field="hang_after",
        metavar="TIME",
        parse=_hang_after,
        help="report a stall after 60s (the default), 5m, off",
    ),
    Option(
        flags=("--retries",),
        field="retries",
        metavar="N",
        parse=_retries,
        help="after a failure, run again up to N times",
    ),
    Option(
        flags=("--env",),
        field="env",
        metavar="K=V",
        parse=_env,
        many=True,
        help="set a variable in every rank (repeat for more)",
    ),
    Option(
        flags=("--args",),
        field="args",
        metavar='"…"',
        parse=_args,
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
        parse=_count_of_nodes,
        help="N machines: run the same on each, with the same options",
    ),
    Option(
        flags=("--node-rank",),
        field="node_rank",
        rare=True,
        metavar="I",
        parse=_node_rank,
        aliases=("--node_rank",),
        help="which of the machines this is, from 0",
    ),
    Option(
        flags=("--master",),
        field="master",
        rare=True,
        metavar="HOST:PORT",
        parse=_address,
        many=True,
        help="where the machines meet: an address of node 0, and a free port there",
    ),
    Option(
        flags=("--ips",),
        field="ips",
        rare=True,
        metavar="A,B",
        parse=_addresses,
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
        parse=_wait,
        help="how long the other machines are awaited (10m)",
    ),
    Option(
        flags=("--on",),
        field="engine",
        metavar="ENGINE",
        choices=("local", "slurm"),
        help="local: here; slurm: as a job, on --nodes N, each with -n or --gpus ranks",
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
        parse=_ranks_to_show,
        help="of the plain text, the lines of these ranks of a machine alone",
    ),
)


def help_text(usage: str = "%%distributed [options]", *, without: Collection[str] = ()) -> str:
    """The options below ``usage`` as a table of text, but for the fields in ``without``."""
    shown = [option for option in OPTIONS if option.field not in without]
    rows = [(", ".join(o.flags) + (f" {o.metavar}" if o.metavar else ""), o.help) for o in shown]
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
        cells = [cell.replace("|", r"\|") for cell in (f"`{written}`", option.help)]
        lines.append(f"| {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


class LineParser(argparse.ArgumentParser):
    """The arguments of a line magic or a command; a mistake is answered with how it is written."""

    def __init__(self, usage: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._written = usage

    def error(self, message: str) -> NoReturn:
        raise UsageMistake(f"{message}: write  {self._written}")


class _Parser(argparse.ArgumentParser):
    """argparse, with errors that say what to type instead."""

    def error(self, message: str) -> NoReturn:
        # "argument -n/--nproc/…: what is wrong": only a value that is missing, or one too many
        flag = message.removeprefix("argument ").partition("/")[0].partition(":")[0]
        option = next((option for option in OPTIONS if flag in option.flags), None)
        if option is None:
            raise UsageMistake(message)
        if not option.metavar:
            written = flag if flag.startswith("--") else option.flags[-1]
            raise UsageMistake(f"{written} takes no value: write  {written}")
        example = f"{option.flags[0]} {option.metavar}"
        raise UsageMistake(f"{option.flags[0]} needs a value: write  {example}")


def parse(line: str) -> Options:
    """The options on a line, which a comment may end. Raises UsageMistake, whose message is one line."""
    return parse_words(split_line(line))


def split_line(line: str) -> list[str]:
    """The words of a line as a shell reads them, without a comment behind. Raises UsageMistake."""
    try:
        return shlex.split(_without_comment(line))
    except ValueError as error:
        raise UsageMistake(f'{line.strip()!r}: {error}; quote a value like  --args "--lr 0.1"') from None


def _without_comment(line: str) -> str:
    """``line`` up to a ``#`` that begins a word outside quotes."""
    quote, before = "", " "
    for at, character in enumerate(line):
        if before == "\\" and quote != "'":
            before = ""
            continue
        if not quote and character == "#" and before.isspace():
            return line[:at]
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        before = character
    return line


def parse_words(words: Sequence[str]) -> Options:
    """The options in ``words``, as nbdist or another launcher writes them. Raises UsageMistake."""
    launcher, words = launchers.behind_launcher(words)
    if launcher and (program := split_program(words)[1]):
        raise UsageMistake(
            f"the program of %%distributed is the cell below it: leave out  {shlex.join(program)} , or run "
            f"the script:  %distributed {launcher} {shlex.join(words)}"
        )
    foreign = launchers.translated(words)
    values, unknown = _parser().parse_known_args(_joined(foreign.words))
    if unknown:
        raise UsageMistake(_about_unknown(unknown[0]))
    given = {name: value for name, value in vars(values).items() if value is not None}
    if "env" in given:
        given["env"] = tuple(given["env"])
    options = Options(**given | _master(given.get("master", ())))
    options = replace(options, any_device=foreign.any_device and options.gpus is None, notes=foreign.notes)
    if options.engine == "local" and options.slurm:
        options = replace(options, engine="slurm")
    if options.engine != "local":
        _check_engine(options)
        return options
    _check_together(options)
    _check_nodes(options)
    _check_port(options)
    return options


def _master(parts: Sequence[str]) -> dict[str, str]:
    """The address that was said in one piece or in several: torchrun has a flag for each half."""
    if not parts or _STANDALONE in parts:
        return {"master": ""}
    split = [part.rpartition(":")[::2] if ":" in part else (part, "") for part in parts]
    host = next((host for host, _ in reversed(split) if host), "")
    port = next((port for _, port in reversed(split) if port), "")
    return {"master": f"{host}:{port}"}


def instead_of(command: str) -> str:
    """What to type instead of ``!command`` in a notebook, where it starts another launcher; else empty."""
    try:
        words = split_line(command)
        launcher, _ = launchers.behind_launcher(words)
    except UsageMistake:
        return ""
    return f"%distributed {command.strip()}" if launcher else ""


def split_program(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options in front of a program, and the program with its arguments, which are not looked at.

    A program begins with the first word that is neither an option nor its value, or behind ``--``.
    ``-m`` and ``--no-python`` say what it is, and may stand anywhere before it.
    """
    _, words = launchers.behind_launcher(words)
    valued = {flag for option in OPTIONS if option.metavar for flag in (*option.flags, *option.aliases)}
    own: list[str] = []
    kind: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word in (*MODULE_FLAGS, *COMMAND_FLAGS):
            kind = [word]
            at += 1
            continue
        if not word.startswith("-"):
            break
        foreign = launchers.flag_of(word)
        takes_next = word in valued if foreign is None else foreign.valued and _bare(word)
        own += words[at : at + 1 + takes_next]
        at += 1 + takes_next
    return own, [*kind, *words[at:]]


def _bare(flag: str) -> bool:
    """Whether the value of a flag does not stand in the same word."""
    return "=" not in flag and (flag.startswith("--") or len(flag) == 2)


def _joined(words: Sequence[str]) -> list[str]:
    """``--args --lr=0.1`` as one word: argparse would take the value for an option of its own."""
    known = {flag for option in OPTIONS for flag in (*option.flags, *option.aliases)}
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--args" and word.partition("=")[0] not in known:
            joined[-1] = f"--args={word}"
        else:
            joined.append(word)
    return joined


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%distributed", add_help=False, allow_abbrev=False, argument_default=None)
    for option in OPTIONS:
        flags = (*option.flags, *option.aliases)
        if not option.metavar:
            for no in (False, True):
                if same := [flag for flag in flags if flag.startswith(("--no-", "--cold")) is no]:
                    parser.add_argument(*same, dest=option.field, action="store_const", const=not no)
        else:
            parser.add_argument(
                *flags,
                dest=option.field,
                type=_checked(option),
                action="append" if option.many else "store",
            )
    return parser


def _checked(option: Option) -> Callable[[str], object]:
    def convert(text: str) -> object:
        if option.choices and text not in option.choices:
            flag = option.flags[-1]
            raise UsageMistake(f"{flag} {text}: write {flag} {', '.join(option.choices)}")
        return option.parse(text)

    return convert


def _check_engine(options: Options) -> None:
    decided = {"--node-rank": options.node_rank is not None, "--master": bool(options.master)}
    decided |= {"--ips": bool(options.ips), "--host": bool(options.host)}
    if given := [flag for flag, there in decided.items() if there]:
        raise UsageMistake(f"{given[0]}: with --on {options.engine} the engine decides: leave it out")
    gpus, nproc = options.gpus, options.nproc
    if gpus is None and nproc is None:
        raise UsageMistake(
            f"--on {options.engine}: say what each node is to give:  --gpus 2  or, for CPU ranks,  -n 2"
        )
    if gpus is not None and (gpus == "all" or len(gpus) > 1 or gpus[0] == 0):
        raise UsageMistake(
            f"--on {options.engine} chooses the GPUs itself: say how many of them on each node:  --gpus 2"
        )
    if gpus is not None and nproc not in (None, gpus[0]):
        raise UsageMistake(f"-n {nproc} and --gpus {gpus[0]} disagree: leave out -n")
    if options.backend == "nccl" and gpus is None:
        raise UsageMistake("--backend nccl needs GPUs: leave it out for CPU ranks, or give --gpus")


def _check_together(options: Options) -> None:
    gpus, nproc = options.gpus, options.nproc
    if isinstance(gpus, tuple) and nproc is not None and nproc != len(gpus):
        ids = ",".join(map(str, gpus))
        raise UsageMistake(
            f"-n {nproc} and --gpus {ids} disagree: --gpus {ids} alone starts {len(gpus)} ranks, one a GPU; "
            f"-n {nproc} alone starts {nproc} on the CPU"
        )
    if options.backend == "nccl" and gpus is None and nproc is not None:
        raise UsageMistake("--backend nccl needs GPUs: leave it out for CPU ranks, or give --gpus")


def _check_nodes(options: Options) -> None:
    count = options.nodes or len(options.ips) or 1
    if options.ips and count != len(options.ips):
        raise UsageMistake(f"--nodes {count} and --ips with {len(options.ips)} disagree: leave out --nodes")
    if options.node_rank is not None and options.node_rank >= count:
        raise UsageMistake(
            f"--node-rank {options.node_rank} of {count} node{'s' if count > 1 else ''}: they are numbered "
            f"from 0: write  --nodes {options.node_rank + 1}  or a lower rank"
        )
    if count > 1 and not options.ips and (not options.master or options.master[0] == ":"):
        raise UsageMistake(f"--nodes {count} need to meet: add  --master HOST:PORT  of node 0")


def _check_port(options: Options) -> None:
    # torchrun takes any free port for 0, which the other machines could not know
    if (options.nodes or len(options.ips)) > 1 and options.master.endswith(":0"):
        raise UsageMistake(f"--master {options.master}: several machines need a port that each knows: 29500")


def _about_unknown(word: str) -> str:
    if not word.startswith("-"):
        return f'{word!r} is no option: arguments of the program go into  --args "{word}"'
    flag = word.partition("=")[0]
    known = [flag for option in OPTIONS for flag in option.flags]
    # without the dashes, which all of them share
    names = {name.lstrip("-"): name for name in known}
    near = difflib.get_close_matches(flag.lstrip("-"), names, n=1, cutoff=0.6)
    if near:
        return f"no option {flag}: did you mean {names[near[0]]}?"
    return f"no option {flag}: there are {', '.join(option.flags[-1] for option in OPTIONS)}"
