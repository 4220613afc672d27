"""Translation of other launchers' command lines into nbdist's. ``launchers.toml`` has their flags.

Flags of torchrun and paddle may stand among nbdist's own; lines of accelerate, deepspeed, fabric and composer
are translated up to their program. A message refuses the rest, with the line to write instead.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nbdist.devices.usage import cpu_count
from nbdist.errors import UsageMistake
from nbdist.tables import read_table

TORCHRUN, PADDLE, FLEETRUN = "torchrun", "paddle.distributed.launch", "fleetrun"
MIXED = (TORCHRUN, PADDLE, FLEETRUN)
"""The launchers whose flags may stand among nbdist's own."""

_SHORT = {"-r": "--redirects", "-t": "--tee"}  # torchrun's
_GPUS_OR_1 = "gpus-or-1"
"""The number of ranks where a launcher was told none: one a GPU, or one alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A flag, spelt with dashes: a row of the table, which explains the other fields."""

    name: str
    switch: bool = False
    becomes: str = ""
    rule: str = ""
    only: Sequence[str] | None = None
    refused: str = ""
    idle: str = ""

    def translated(self, written: str, value: str) -> Sequence[str]:
        """Return nbdist's words for the flag, typed as ``written``. Raises UsageMistake for none."""
        if self.rule:
            return _RULES[self.rule](value)
        if self.only is not None and value.lower() not in self.only:
            raise UsageMistake(f"{written} {value}: {self.refused}")
        if self.refused and self.only is None:
            raise UsageMistake(f"{written}: {self.refused}")
        return [word.replace("{}", value) for word in self.becomes.split()]


@cache
def launcher_table() -> dict[str, Any]:
    return read_table(__file__, "launchers")


@cache
def flags(*launchers: str) -> Mapping[str, Flag]:
    """Return the flags of these launchers by name."""
    return {
        name: Flag(name=name, **{key: row[key] for key in row if key != "names"})
        for row in launcher_table()["flags"]
        for launcher, names in row["names"].items()
        if launcher in launchers
        for name in names
    }


def flag_of(word: str) -> Flag | None:
    """Return torchrun's or paddle's flag in ``word`` (``--flag``, ``--flag=value``, ``-t3``), if any."""
    name = word.partition("=")[0].replace("_", "-") if word.startswith("--") else _SHORT.get(word[:2], "")
    return flags(*MIXED).get(name)


def whole_flag(word: str, launcher: str) -> str:
    """Return ``word`` with its flag written out where it is the beginning of one flag alone, as argparse
    reads a line of the ``launcher``."""
    name, equals, value = word.partition("=")
    begun = name.replace("_", "-")
    if not name.startswith("--") or len(begun) < 4 or flag_of(word) is not None:
        return word
    same = launcher_table()["launchers"][launcher]["same"]
    known = flags(TORCHRUN) if "torch" in launcher else flags(PADDLE, FLEETRUN)
    whole = [flag for flag in (*known, *same) if flag.startswith(begun)]
    return f"{whole[0]}{equals}{value}" if len(whole) == 1 else word


def default_count(launcher: str) -> list[str]:
    """Return the words for the number of ranks that a launcher starts where its line has none."""
    return ["--nproc-per-node", launcher_table()["launchers"][launcher].get("count", _GPUS_OR_1)]


def local_rank_argument(launcher: str) -> list[str]:
    """Return the argument by which a launcher gives a program its local rank; empty for none."""
    name = launcher_table()["launchers"][launcher].get("local_rank")
    return [f"{name}=${{local_rank}}"] if name else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """Another launcher's words as nbdist's. ``any_device``: the number of ranks does not say whether they get
    GPUs; ``without_gpus`` is this number where there are none. ``notes`` name the flags without effect."""

    words: tuple[str, ...]
    any_device: bool = False
    without_gpus: int | None = None
    notes: tuple[str, ...] = ()


def translated(words: Sequence[str]) -> Translated:
    """Return ``words`` with other launchers' flags as options of nbdist. Raises UsageMistake."""
    own: list[str] = []
    idle: dict[str, str] = {}
    any_device, without_gpus = False, None
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag = flag_of(word)
        if flag is None:
            own.append(word)
            if word == "--args" and rest:
                own.append(rest.pop(0))
            continue
        written, equals, value = word.partition("=")
        if flag.switch:
            if equals:
                raise UsageMistake(f"{flag.name} takes no value: write  {flag.name}")
        elif not word.startswith("--") and len(word) > 2:
            written, value = word[:2], word[2:].removeprefix("=")
        elif equals:
            value = value.strip("\"'")
        elif not rest or (rest[0].startswith("-") and not rest[0].lstrip("-").isdigit()):
            raise UsageMistake(f"{word} needs a value: write  {word}=VALUE")
        else:
            value = rest.pop(0)
        own += flag.translated(written, value)
        if flag.name == "--nproc-per-node":
            any_device, without_gpus = True, 1 if value == _GPUS_OR_1 else None
        if flag.idle:
            idle[flag.name] = flag.idle
    notes = tuple(f"{name} has no effect here: {reason}" for name, reason in idle.items())
    return Translated(words=tuple(own), any_device=any_device, without_gpus=without_gpus, notes=notes)


def line_of(launcher: str, unknown: str, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a launcher's line in words of nbdist, and its program. ``unknown`` is the advice about flags in
    no row. Raises UsageMistake."""
    row = launcher_table()["launchers"][launcher]
    own: list[str] = []
    program: list[str] = []
    rest, dashes = list(words), False
    while rest and not dashes:
        word = rest.pop(0)
        dashes = word == "--"
        written, equals, value = word.partition("=")
        name = written.replace("_", "-") if written.startswith("--") else written
        flag = flags(launcher).get(name)
        if dashes:
            continue
        if flag is None and (program or not word.startswith("-")):
            program.append(word)
            # click reads flags behind the script, too
            if not row.get("anywhere"):
                break
        elif flag is None:
            raise UsageMistake(f"{launcher} {written}: {unknown}")
        else:
            if not flag.switch and not equals:
                if not rest:
                    raise UsageMistake(f"{written} needs a value: write  {written} VALUE")
                value = rest.pop(0)
            own += flag.translated(f"{launcher} {written}", value)
    program += rest
    if not dashes or row.get("anywhere"):
        program = without_dashes(program)
    if launcher in _COMBINED:
        own = _COMBINED[launcher](own)
    return own, program


def without_dashes(program: Sequence[str]) -> list[str]:
    """Return a program without a ``--`` in front of its arguments: argparse, which launchers read their lines
    with, takes the first one away."""
    return [*program[:1], *program[1 + (program[1:2] == ["--"]) :]]


def _nodes(value: str) -> Sequence[str]:
    least, colon, most = value.partition(":")
    if colon and least != most:
        raise UsageMistake(
            f"--nnodes {value}: a run here has the same nodes from its beginning to its end: "
            f"write  --nodes {most or least}"
        )
    return ["--nodes", least]


def _ranks_per_node(value: str) -> Sequence[str]:
    if value in ("xpu", "npu"):
        raise UsageMistake(f"--nproc_per_node {value}: {launcher_table()['cards']['refused']}")
    named = {"gpu": ["--gpus", "all"], "cpu": ["-n", str(cpu_count())], "auto": [], _GPUS_OR_1: []}
    return named.get(value, ["-n", value])


def _master(value: str) -> Sequence[str]:
    if value.startswith("etcd"):
        raise UsageMistake(f"--master {value}: nbdist needs no etcd: write  --master HOST:PORT  of node 0")
    return ["--master", value.removeprefix("http://")]


def _rendezvous(value: str) -> Sequence[str]:
    pairs = dict(pair.partition("=")[::2] for pair in value.split(",") if pair)
    seconds = pairs.get("join_timeout") or pairs.get("timeout")
    return ["--wait", seconds] if seconds else []


def _included(value: str) -> Sequence[str]:
    host, colon, gpus = value.partition(":")
    if "@" in value or not colon or host not in ("localhost", "127.0.0.1"):
        raise UsageMistake(
            f"deepspeed --include {value}: the GPUs are those of this machine: write  --gpus 0,1"
        )
    return ["--gpus", gpus]


_RULES: Mapping[str, Callable[[str], Sequence[str]]] = {
    "nodes": _nodes,
    "ranks_per_node": _ranks_per_node,
    "master": _master,
    "rendezvous": _rendezvous,
    "included": _included,
    "job": lambda value: [] if value == "default" else ["--name", value],
    "dynamo": lambda value: ["--env", f"ACCELERATE_DYNAMO_BACKEND={value.upper()}"],
}


def _accelerate(words: list[str]) -> list[str]:
    """Combine a line of accelerate with its file of settings, and convert its number of processes on all
    machines to nbdist's, on one machine. Raises UsageMistake."""
    given, kept = _given(words, "--nproc-per-node", "--nodes", "--gpus", "--config-file", "--cpu")
    if "--config-file" in given or not given.get("--cpu"):
        settings = _settings(given.pop("--config-file", ""))
        given = {name: value for name, value in settings.items() if not name.startswith("-env")} | given
        kept = [*settings.get("-env", "").split(), *kept]
    nodes = int(given.get("--nodes") or 1)
    count = given.pop("--nproc-per-node", "")
    count = str(max(1, int(count) // nodes)) if count.isdecimal() else count
    if given.pop("--cpu", ""):
        given.pop("--gpus", None)
        kept += ["-n", count or "1"]
    elif count or "--gpus" not in given:
        kept += ["--nproc-per-node", count or _GPUS_OR_1]
    return [*(word for pair in given.items() for word in pair), *kept]


def _given(words: Sequence[str], *names: str) -> tuple[dict[str, str], list[str]]:
    """Return the last value of each option of ``names`` ("yes" for --cpu), and the other words."""
    given: dict[str, str] = {}
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in names:
            given[word] = "yes" if word == "--cpu" else next(rest)
        else:
            kept.append(word)
    return given, kept


def _settings(chosen: str) -> dict[str, str]:
    """Return what accelerate's ``chosen`` file, or its default one, says of processes, devices and precision,
    by nbdist's options; ``-env`` are words for variables. Raises UsageMistake."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    default = Path(os.environ.get("HF_HOME", f"{cache}/huggingface"), "accelerate/default_config.yaml")
    path = Path(chosen) if chosen else default.expanduser()
    if not chosen and not path.is_file():
        return {}
    try:
        # what writes these files, accelerate, brings this reader along
        read = importlib.import_module("yaml").safe_load(path.read_text(encoding="utf-8"))
    except Exception as error:  # noqa: BLE001 - a missing file or reader, or what is no YAML
        raise UsageMistake(
            f"accelerate's file {path} cannot be read ({error}): write what it says as options, for example  "
            "--num_processes 2 --mixed_precision bf16"
        ) from None
    values = {name: str(value) for name, value in dict(read).items() if value not in (None, "", {})}
    kind = values.get("distributed_type", "NO").upper()
    table = launcher_table()["accelerate"]
    if kind in table["refused"]:
        raise UsageMistake(f"{path} says distributed_type: {kind}: {table['refused'][kind]}")
    settings = {option: values[name] for name, option in table["options"].items() if name in values}
    if settings.get("--gpus") == "all":
        del settings["--gpus"]
    if int(settings.get("--nodes", 1)) < 2:
        settings = {name: settings[name] for name in settings.keys() & {"--nproc-per-node", "--gpus"}}
    if values.get("use_cpu", "").lower() == "true" or kind == "MULTI_CPU":
        settings["--cpu"] = "yes"
    if (precision := values.get("mixed_precision", "no").lower()) != "no":
        settings["-env"] = f"--env ACCELERATE_MIXED_PRECISION={precision}"
    return settings


def _fabric(words: list[str]) -> list[str]:
    """Convert ``--accelerator`` and ``--devices`` of fabric to ranks on GPUs or on the CPU."""
    given, kept = _given(words, "--accelerator", "--devices")
    accelerator, devices = given.get("--accelerator", "auto"), given.get("--devices", "1")
    kept += ["--env", "LT_CLI_USED=1", "--env", f"LT_ACCELERATOR={accelerator}"]
    kept += ["--env", f"LT_DEVICES={devices}"]
    if "," in devices or devices == "-1":
        return [*kept, "--gpus", "all" if devices == "-1" else devices.strip(",")]
    count = "1" if devices == "auto" else devices
    return [*kept, *(["-n", count] if accelerator == "cpu" else ["--nproc-per-node", count])]


_COMBINED: Mapping[str, Callable[[list[str]], list[str]]] = {
    "accelerate launch": _accelerate,
    "fabric run": _fabric,
}
"""Functions that combine several flags of a launcher."""
