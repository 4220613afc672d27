"""Words become Options; the message of a mistake has what to type instead."""

from __future__ import annotations

import argparse
import difflib
import functools
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from nbdist.errors import UsageMistake
from nbdist.frameworks import launchers
from nbdist.model.sweep import MOST, Points, names_of
from nbdist.options import table
from nbdist.options.table import OPTIONS, Option
from nbdist.options.typed_line import read_line, split_line
from nbdist.privacy import masked_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The words behind ``%%distributed``, checked for themselves (not yet against the machine). ``gpus``
    is None where the option is left out, "all", or ids. ``timeout``, ``grace``, ``hang_after`` (0: never) and
    ``wait`` are in seconds, ``memory`` is bytes of each rank. ``slurm`` is for Slurm, each ``key=value``
    or ``key``, ``ray`` the address of a Ray. ``master`` is "host:port", where either may be missing.
    ``any_device``: as with another launcher, ranks get GPUs where there are enough; ``without_gpus`` is their
    number where there are none and ``nproc`` is not given. ``python_flags`` are options of the interpreter.
    ``sweep`` are lists of points, and every combination gets a run of ``each`` ranks. ``push`` are names of
    the notebook, or "auto". ``notes`` name flags of another launcher without effect."""

    nproc: int | None = None
    gpus: tuple[int, ...] | str | None = None
    framework: str = "auto"
    backend: str = "auto"
    name: str = ""
    detach: bool = False
    timeout: float | None = None
    until: str = ""
    grace: float | None = None
    hang_after: float = 60.0
    notify: str = ""
    profile: str = ""
    retries: int = 0
    debug: bool = False
    checkpoints: str = ""
    memory: int | None = None
    env: tuple[tuple[str, str], ...] = ()
    python_flags: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    sweep: tuple[Points, ...] = ()
    each: int | None = None
    metric: str = ""
    push: tuple[str, ...] = ()
    keep_inputs: bool = False
    pull: tuple[str, ...] = ()
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
    ray: str = ""
    scrape: bool = True
    panel: bool = True
    check: bool = True
    warm: bool | None = None
    show_ranks: tuple[int, ...] | None = None
    any_device: bool = False
    without_gpus: int | None = None
    notes: tuple[str, ...] = ()


def check(options: Options) -> None:
    """Check the options against each other. Raises UsageMistake."""
    if options.pull:
        _check_pull(options)
    if options.debug:
        _check_debug(options)
    if options.sweep or options.each is not None or options.metric:
        _check_sweep(options)
    if options.engine != "local":
        _check_engine(options)
    else:
        _check_together(options)
        _check_nodes(options)


def _check_pull(options: Options) -> None:
    name = options.pull[0]
    if options.detach:
        raise UsageMistake(
            f"--pull and -d disagree: leave out --pull, and when the run has ended read  "
            f'nbdist.attach().results["{name}"]'
        )
    if options.node_rank:
        raise UsageMistake(f"--pull works on node 0, where rank 0 runs: pull {name} there")


def _check_debug(options: Options) -> None:
    elsewhere = {"--on": options.engine != "local", "--nodes": options.nodes, "--ips": options.ips}
    others = elsewhere | {"--sweep": options.sweep, "--retries": options.retries}
    if flag := next((flag for flag, given in others.items() if given), ""):
        raise UsageMistake(f"--debug holds one run, on this machine, where it fails: leave out {flag}")


def _check_sweep(options: Options) -> None:
    if not options.sweep:
        flag = "--metric" if options.each is None else "--each"
        raise UsageMistake(f"{flag} is for sweeps: add one, such as  --sweep lr=0.1,0.01")
    names = [name for points in options.sweep for name in names_of(points)]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise UsageMistake(f"--sweep {twice}=… is given twice: write all of its values in one list")
    count = math.prod(map(len, options.sweep))
    if count > MOST:
        sizes = " x ".join(str(len(points)) for points in options.sweep)
        raise UsageMistake(
            f"--sweep makes {count} points ({sizes}), and a sweep has at most {MOST}: give fewer values, "
            "or start a second sweep with the others"
        )
    elsewhere = {"--on": options.engine != "local", "--nodes": options.nodes, "--ips": options.ips}
    if flag := next((flag for flag, given in elsewhere.items() if given), ""):
        raise UsageMistake(f"{flag} does not work with a sweep, which runs on this machine: leave it out")
    if options.pull:
        name = options.pull[0]
        raise UsageMistake(
            "--pull does not work with a sweep, which has a result for each point: leave it out, and read  "
            f'[run.results["{name}"] for run in nbdist.sweep().runs]'
        )
    if options.log_dir:
        raise UsageMistake("--log-dir does not work with a sweep of several runs: leave it out")
    room = len(options.gpus) if isinstance(options.gpus, tuple) else options.nproc
    check_each(options, room)


def check_each(options: Options, room: int | None) -> None:
    """Raise UsageMistake where the runs of a sweep need more ranks than there is ``room`` for."""
    if options.each is not None and room is not None and options.each > room:
        what = "-n" if options.gpus is None else "--gpus"
        raise UsageMistake(
            f"--each {options.each} gives each run {options.each} ranks, and {what} has only {room}: write  "
            f"--each {room}  or less"
        )


def _check_engine(options: Options) -> None:
    decided = {"--node-rank": options.node_rank is not None, "--master": options.master}
    decided |= {"--ips": options.ips, "--host": options.host}
    if flag := next((flag for flag, given in decided.items() if given), ""):
        raise UsageMistake(f"{flag} does not work with --on {options.engine}: leave it out")
    for engine in ("slurm", "ray"):
        if options.engine != engine and getattr(options, engine):
            raise UsageMistake(f"--{engine} and --on {options.engine} disagree: leave out one of them")
    gpus, nproc = options.gpus, options.nproc
    if gpus is None and nproc is None:
        raise UsageMistake(
            f"--on {options.engine} needs the number of ranks for each node:  --gpus 2  or, on the CPU,  -n 2"
        )
    if gpus is not None and (gpus == "all" or len(gpus) > 1 or gpus[0] == 0):
        raise UsageMistake(
            f"--on {options.engine} chooses the GPUs itself: write how many each node gives, as in  --gpus 2"
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
            f"-n {nproc} and --gpus {ids} disagree: write  --gpus {ids}  for {len(gpus)} ranks, one on each "
            f"GPU, or  -n {nproc}  for {nproc} on the CPU"
        )
    if options.backend == "nccl" and gpus is None and nproc is not None:
        raise UsageMistake("--backend nccl needs GPUs: leave it out for CPU ranks, or give --gpus")


def _check_nodes(options: Options) -> None:
    count = options.nodes or len(options.ips) or 1
    if options.ips and count != len(options.ips):
        raise UsageMistake(f"--nodes {count} and --ips with {len(options.ips)} disagree: leave out --nodes")
    if options.node_rank is not None and options.node_rank >= count:
        raise UsageMistake(
            f"--node-rank {options.node_rank} needs more than {count} node{'s' if count > 1 else ''}, "
            f"numbered from 0: write  --nodes {options.node_rank + 1}  or a lower rank"
        )
    if count > 1 and not options.ips and (not options.master or options.master[0] == ":"):
        raise UsageMistake(f"--nodes {count} needs the address of node 0: add  --master HOST:PORT")
    if count > 1 and options.push:
        raise UsageMistake(
            "--push stores the values on a disk that the other machines do not see: make them in the cell, "
            "or read them from a disk that all machines share"
        )
    # torchrun takes any free port for 0, which other machines cannot know
    if count > 1 and options.master.endswith(":0"):
        raise UsageMistake(f"--master {options.master} needs a port: write one, such as 29500")


class LineParser(argparse.ArgumentParser):
    """The arguments of a line magic or a command; the message of a mistake has the usage."""

    def __init__(self, usage: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._written = usage

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        for word in args or ():
            if "\0" in word:
                self.error(f"a null character stands in {word!r:.80}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        raise UsageMistake(f"{message}: write  {self._written}")


def parse(line: str) -> Options:
    """Parse the options on a line, which a comment may end. Raises UsageMistake with one line."""
    return parse_words(split_line(line))


def parse_words(words: Sequence[str], standing: Mapping[str, Any] | None = None) -> Options:
    """Parse options as nbdist or another launcher writes them. ``standing`` are values, by the fields of
    Options, that hold where ``words`` have no others. Raises UsageMistake."""
    line = read_line(words)
    if line.launcher and line.program:
        left_out, typed = shlex.join(masked_words(line.program)), shlex.join(masked_words(words))
        raise UsageMistake(
            f"the program of %%distributed is the cell below it: leave out  {left_out} , or run "
            f"the script:  %distributed {typed}"
        )
    foreign = launchers.translated(line.own if line.launcher else words)
    named, unknown = _parser().parse_known_args(_joined(foreign.words))
    if unknown:
        raise UsageMistake(_about_unknown(unknown[0], words, swept=named.sweep or ()))
    given = {name: value for name, value in vars(named).items() if value is not None}
    if "sweep" in given:
        given["sweep"] = tuple(given["sweep"])
    if "master" in given:
        given["master"] = table.joined_address(given["master"])
    kept = dict(standing or {})
    # each says how many ranks there are, and on what
    for name in ("nproc", "gpus") if {"nproc", "gpus"} & given.keys() else ():
        kept.pop(name, None)
    given["env"] = (*kept.get("env", ()), *given.get("env", ()))
    options = Options(**kept | given)
    any_device = foreign.any_device and options.gpus is None
    options = replace(
        options, any_device=any_device, without_gpus=foreign.without_gpus if any_device else None
    )
    options = replace(options, notes=foreign.notes)
    if options.engine == "local" and (options.slurm or options.ray):
        options = replace(options, engine="slurm" if options.slurm else "ray")
    check(options)
    return options


def parse_keywords(keywords: Mapping[str, object]) -> Options:
    """Parse a call's options: ``nproc=2, gpus=[0, 1], env={"K": "V"}, detach=True, timeout="5m"``;
    ``sweep`` may also be a list of points. Raises UsageMistake."""
    swept = keywords.get("sweep")
    if hasattr(swept, "to_dict"):  # pandas' DataFrame has a row for each point
        swept = swept.to_dict("records")
    if not isinstance(swept, (list, tuple)):
        return parse_words(keyword_words(keywords))
    others = {name: value for name, value in keywords.items() if name != "sweep"}
    return parse_words(keyword_words(others), {"sweep": (table.listed_points(swept),)})


def keyword_words(keywords: Mapping[str, object]) -> list[str]:
    """Return these keywords as words of a line. Raises UsageMistake for an unknown option."""
    by_field = {option.field: option for option in OPTIONS}
    words: list[str] = []
    for name, value in keywords.items():
        if name not in by_field:
            near = difflib.get_close_matches(name, by_field, n=1)
            raise UsageMistake(f"no option {name}" + (f": did you mean {near[0]}=?" if near else ""))
        if value is not None:
            words += _words_of(by_field[name], value)
    return words


def _words_of(option: Option, value: object) -> list[str]:
    if not option.metavar:
        if not isinstance(value, bool):
            raise UsageMistake(f"{option.field}={value!r}: write  {option.field}=True  or  False")
        return option.switches(value)[:1]
    if option.many and isinstance(value, Mapping):
        return [f"{option.flags[-1]}={key}={_listed(item)}" for key, item in value.items()]
    return [f"{option.flags[-1]}={_listed(value)}"]


def _listed(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def get_ready() -> None:
    """Make the parser, which is made once."""
    _parser()


def _joined(words: Sequence[str]) -> list[str]:
    """Join ``--args --lr=0.1`` to one word: argparse would take the value for an option of its own."""
    known = {flag for option in OPTIONS for flag in option.spellings}
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in ("--args", "--python-flags") and word.partition("=")[0] not in known:
            joined[-1] = f"{joined[-1]}={word}"
        else:
            joined.append(word)
    return joined


@functools.cache
def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%distributed", add_help=False, allow_abbrev=False, argument_default=None)
    for option in OPTIONS:
        if option.metavar:
            action = "append" if option.many else "store"
            parse = functools.partial(_parsed, option)
            parser.add_argument(*option.spellings, dest=option.field, type=parse, action=action)
        for value in () if option.metavar else (True, False):
            if flags := option.switches(value):
                parser.add_argument(*flags, dest=option.field, action="store_const", const=value)
    return parser


def _parsed(option: Option, text: str) -> object:
    if option.choices and text not in option.choices:
        flag = option.flags[-1]
        raise UsageMistake(f"{flag} {text}: write {flag} {', '.join(option.choices)}")
    return option.parse(text)


class _Parser(argparse.ArgumentParser):
    """argparse, with errors that have what to type instead."""

    def error(self, message: str) -> NoReturn:
        # "argument -n/--nproc/…: what is wrong": a value is missing, or one too many
        flag = message.removeprefix("argument ").partition("/")[0].partition(":")[0]
        option = next((option for option in OPTIONS if flag in option.flags), None)
        if option is None:
            raise UsageMistake(message)
        if not option.metavar:
            written = flag if flag.startswith("--") else option.flags[-1]
            raise UsageMistake(f"{written} takes no value: write  {written}")
        raise UsageMistake(f"{option.flags[0]} needs a value: write  {option.flags[0]} {option.metavar}")


def _about_unknown(word: str, line: Sequence[str], *, swept: Sequence[Points]) -> str:
    if not word.startswith("-"):
        if word.endswith(".py"):
            return f"a script has one %: write  %distributed {shlex.join(masked_words(line))}"
        if any(len(points[0]) > 1 for points in swept):
            return f'{word!r}: put all points between quotes:  --sweep "lr,width=0.1,64 0.01,128"'
        return f'{word!r} is no option: arguments of the program go into  --args "{word}"'
    flag = word.partition("=")[0]
    # without the dashes, which all of them share
    names = {name.lstrip("-"): name for option in OPTIONS for name in option.spellings}
    foreign = {name.lstrip("-"): name for name in launchers.flags(*launchers.MIXED)}
    if "_" in flag:
        foreign = {name.replace("-", "_"): f"--{name.replace('-', '_')}" for name in foreign}
    near = difflib.get_close_matches(flag.lstrip("-"), names, n=1, cutoff=0.6)
    nearer = difflib.get_close_matches(flag.lstrip("-"), foreign, n=1, cutoff=0.85)
    if nearer or near:
        return f"no option {flag}: did you mean {(foreign | names)[(nearer or near)[0]]}?"
    return f"no option {flag}: there are {', '.join(option.flags[-1] for option in OPTIONS)}"
