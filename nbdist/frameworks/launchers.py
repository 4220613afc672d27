"""Translation of other launchers' command lines into nbdist's. ``launchers.toml`` has their flags.

Flags of torchrun and paddle may stand among nbdist's own; lines of accelerate, deepspeed, fabric and composer
are translated up to their program. A message refuses the rest, with the line to write instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import Any

from nbdist.devices.usage import cpu_count
from nbdist.errors import UsageMistake
from nbdist.tables import read_table

TORCHRUN, PADDLE, FLEETRUN = "torchrun", "paddle.distributed.launch", "fleetrun"
_MODULES = {
    "torch.distributed.run": TORCHRUN,
    "torch.distributed.launch": TORCHRUN,
    "paddle.distributed.launch": PADDLE,
    "paddle.distributed.fleet.launch": FLEETRUN,
}
_SHORT = {"-r": "--redirects", "-t": "--tee"}  # torchrun's


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
def _table() -> dict[str, Any]:
    return read_table(__file__, "launchers")


@cache
def flags(*launchers: str) -> Mapping[str, Flag]:
    """Return the flags of these launchers by name."""
    return {
        name: Flag(name=name, **{key: row[key] for key in row if key != "names"})
        for row in _table()["flags"]
        for launcher, names in row["names"].items()
        if launcher in launchers
        for name in names
    }


def flag_of(word: str) -> Flag | None:
    """Return torchrun's or paddle's flag in ``word`` (``--flag``, ``--flag=value``, ``-t3``), if any."""
    name = word.partition("=")[0].replace("_", "-") if word.startswith("--") else _SHORT.get(word[:2], "")
    return flags(TORCHRUN, PADDLE, FLEETRUN).get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """Another launcher's words as nbdist's. ``any_device``: the number of ranks does not say whether they get
    GPUs. ``notes`` name the flags without effect."""

    words: tuple[str, ...]
    any_device: bool = False
    notes: tuple[str, ...] = ()


def translated(words: Sequence[str]) -> Translated:
    """Return ``words`` with other launchers' flags as options of nbdist. Raises UsageMistake."""
    own: list[str] = []
    idle: dict[str, str] = {}
    any_device = False
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
        any_device |= flag.name == "--nproc-per-node"
        if flag.idle:
            idle[flag.name] = flag.idle
    notes = tuple(f"{name} has no effect here: {reason}" for name, reason in idle.items())
    return Translated(words=tuple(own), any_device=any_device, notes=notes)


def behind_launcher(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the launcher of a pasted command line ("" for none) and its words, with leading variables as
    ``--env`` and without a wrapper such as ``uv run``. Raises UsageMistake."""
    variables, rest = _without_prefix(words)
    name, own = _torchrun_or_paddle(rest)
    if not name:
        name, own = _other(rest)
    if not name:
        return "", list(words)
    return name, [*(word for text in variables for word in _variable(*text.split("=", 1))), *own]


# wrappers that run a command in an environment of their choice
_RUNNERS = {(runner, "run") for runner in ("uv", "poetry", "pipenv", "pdm", "hatch", "rye")}


def _without_prefix(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the variables before a command (``A=b``, ``env A=b``), and the command without a wrapper such as
    ``uv run``. Raises UsageMistake for options of a wrapper."""
    variables: list[str] = []
    rest = list(words)
    while rest:
        if re.fullmatch(r"[A-Za-z_]\w*=.*", rest[0], re.DOTALL):
            variables.append(rest.pop(0))
            continue
        length = 2 if tuple(rest[:2]) in _RUNNERS else int(rest[0] in ("env", "nohup"))
        if not length:
            break
        surrounding, rest = " ".join(rest[:length]), rest[length:]
        if surrounding == "nohup":
            continue
        if rest[:1] == ["--"]:
            del rest[:1]
        if rest and rest[0].startswith("-"):
            raise UsageMistake(
                f"{surrounding} {rest[0]}: the ranks use {sys.executable}: leave out  {surrounding}"
            )
    return variables, rest


def _variable(name: str, value: str) -> list[str]:
    if name == "CUDA_VISIBLE_DEVICES":
        raise UsageMistake(f"CUDA_VISIBLE_DEVICES={value}: choose the GPUs of the run with  --gpus {value}")
    return ["--env", f"{name}={value}"]


def _torchrun_or_paddle(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the launcher of these two that ``words`` begin with ("" for none), and the words after it."""
    program, *rest = [PurePath(words[0]).name, *words[1:]] if words else [""]
    if program in (TORCHRUN, FLEETRUN):
        return program, rest
    if not re.fullmatch(r"python[\d.]*", program):
        return "", []
    while rest and rest[0] in ("-u", "-B", "-O"):
        rest.pop(0)
    module = rest[1].removesuffix(".__main__") if len(rest) > 1 and rest[0] == "-m" else ""
    return _MODULES.get(module, ""), rest[2:]


def _other(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return any other launcher ("" for none), and the line in words of nbdist. Raises UsageMistake."""
    if not words:
        return "", []
    program, table = PurePath(words[0]).name, _table()
    for row in table["refused"]:
        if program in row["names"]:
            raise UsageMistake(f"{program}: {row['reason']}  {_instead(program, words[1:])}")
    for launcher, unknown in table["unknown"].items():
        length = len(launcher.split())
        if " ".join([program, *words[1:length]]) == launcher:
            return launcher, _until_program(launcher, unknown, words[length:])
    return "", []


def _until_program(launcher: str, unknown: str, words: Sequence[str]) -> list[str]:
    """Return a launcher's line in words of nbdist. ``unknown`` is the advice about flags not in the table."""
    own: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        written, equals, value = word.partition("=")
        name = written.replace("_", "-") if written.startswith("--") else written
        flag = flags(launcher).get(name)
        if flag is None:
            raise UsageMistake(f"{launcher} {written}: {unknown}")
        if not flag.switch and not equals:
            if not rest:
                raise UsageMistake(f"{written} needs a value: write  {written} VALUE")
            value = rest.pop(0)
        own += flag.translated(f"{launcher} {written}", value)
    if launcher in _COMBINED:
        own = _COMBINED[launcher](own)
    return [*own, *rest]


def _instead(program: str, words: Sequence[str]) -> str:
    """Return nbdist's line for one of MPI or Slurm."""
    count, script, rest = "2", ["train.py"], list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in ("-n", "-np", "--np", "--ntasks", "-c", "--num-proc") and (equals or rest):
            count = value if equals else rest.pop(0)
        elif word.endswith(".py"):
            script = [word, *rest]
            break
    line = " ".join(["nbdist run -n", count, *script])
    return f"{line} , on other machines with  --on slurm --nodes 2" if program == "srun" else line


def _nodes(value: str) -> Sequence[str]:
    least, colon, most = value.partition(":")
    if colon and least != most:
        raise UsageMistake(
            f"--nnodes {value}: a run here has the same nodes from its beginning to its end: "
            f"write  --nodes {most or least}"
        )
    return ["--nodes", least]


def _ranks_per_node(value: str) -> Sequence[str]:
    if value == "xpu":
        raise UsageMistake("--nproc_per_node xpu: nbdist knows GPUs of NVIDIA and the CPU: write  -n 2")
    named = {"gpu": ["--gpus", "all"], "cpu": ["-n", str(cpu_count())], "auto": []}
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
    """Convert accelerate's number of processes on all machines to nbdist's, on one machine."""
    at = words.index("--nproc-per-node") + 1 if "--nproc-per-node" in words else 0
    nodes = int(words[words.index("--nodes") + 1]) if "--nodes" in words else 1
    if at:
        words[at] = str(max(1, int(words[at]) // nodes))
    if "--cpu" in words:
        words.remove("--cpu")
        at = words.index("--nproc-per-node") + 1 if at else 0
        words[max(at - 1, 0) : at] = ["-n"] if at else ["-n", "2"]
    return words


def _fabric(words: list[str]) -> list[str]:
    """Convert ``--accelerator`` and ``--devices`` of fabric to ranks on GPUs or on the CPU."""
    kept: list[str] = []
    given = {"--accelerator": "auto", "--devices": "1"}
    rest = iter(words)
    for word in rest:
        if word in given:
            given[word] = next(rest)
        else:
            kept.append(word)
    accelerator, devices = given["--accelerator"], given["--devices"]
    kept += ["--env", "LT_CLI_USED=1", "--env", f"LT_ACCELERATOR={accelerator}"]
    kept += ["--env", f"LT_DEVICES={devices}"]
    if "," in devices or devices == "-1":
        return [*kept, "--gpus", "all" if devices == "-1" else devices]
    if devices == "auto":
        return kept
    return [*kept, *(["-n", devices] if accelerator == "cpu" else ["--nproc-per-node", devices])]


_COMBINED: Mapping[str, Callable[[list[str]], list[str]]] = {
    "accelerate launch": _accelerate,
    "fabric run": _fabric,
}
"""Functions that combine several flags of a launcher."""
