"""The options that a run was started with, from its spec: to start it again, and to write its cell anew."""

from __future__ import annotations

import shlex
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from nbdist.engines.options import ADDRESS
from nbdist.model import RunSpec
from nbdist.options.parser import COMMAND_FLAGS, MODULE_FLAGS, Options, keyword_words
from nbdist.privacy import MASK

_AS_TYPED = (
    *("framework", "backend", "timeout", "retries", "memory", "args", "keep_inputs", "cwd", "log_dir"),
    *("scrape", "wait"),
)
_NO_FRAMEWORK = ("framework", "none")
_COMMAND = ("worker", "execute.py")
"""What a rank runs whose program is not Python's, which is the first of its arguments."""


def recorded_options(spec: RunSpec) -> dict[str, Any]:
    """By the fields of Options, where they are not what they are without being asked for. What nbdist did not
    write down (``privacy``) is missing, and so are the names that were pushed."""
    here = spec.here[: len(spec.ranks) // spec.nodes]  # with an engine all nodes are here
    gpus = tuple(rank.device.index for rank in here if rank.device.kind == "gpu")
    on_engine = (len(gpus),) if spec.engine and gpus else gpus
    found = {name: getattr(spec, name) for name in _AS_TYPED} | {
        "nproc": None if gpus else len(here),
        "gpus": on_engine or None,
        "name": "" if spec.name in (spec.framework, "run") else spec.name,
        "detach": spec.detached,
        "hang_after": spec.hang_after or 0.0,
        "env": tuple((name, value) for name, value in spec.environment.items() if value != MASK),
        "nodes": spec.nodes if spec.nodes > 1 else None,
        "engine": spec.engine or "local",
        "slurm": spec.engine_options if spec.engine == "slurm" else (),
    }
    if spec.engine == "ray":
        found["ray"] = next(iter(spec.engine_options), "").removeprefix(ADDRESS)
    elif spec.nodes > 1 and not spec.engine:
        found |= {
            "node_rank": spec.node_rank,
            "master": spec.master,
            "ips": spec.addresses,
            "host": spec.host,
        }
    return {name: found[name] for name, usual in _UNASKED.items() if name in found and found[name] != usual}


_UNASKED = {field.name: None if field.default is MISSING else field.default for field in fields(Options)}


def program_words(spec: RunSpec) -> list[str]:
    """The script or module of a run and its arguments, as they would be typed; none for a cell."""
    if Path(spec.program).parts[-2:] == (spec.run_id, "cell.py"):
        return []
    if Path(spec.program).parts[-2:] == _COMMAND:
        return [COMMAND_FLAGS[0], *spec.args]
    return [*([MODULE_FLAGS[0], spec.module] if spec.module else [spec.program]), *spec.args]


def first_line(spec: RunSpec) -> str:
    """``%%distributed …``, with which the run's cell would start it in the folder of its notebook; of a
    script ``%distributed … train.py``, which is all. Empty for a session."""
    program = program_words(spec)
    if spec.session is not None:
        return ""
    words = ["%distributed" if program else "%%distributed"]
    for name, value in recorded_options(spec).items():
        # a program that imports none is told apart without being said so
        if (name == "cwd" and not program) or (name == "args" and program) or (name, value) == _NO_FRAMEWORK:
            continue
        for word in keyword_words({name: _typed(name, value)}):
            flag, is_set, text = word.partition("=")
            words += [flag, shlex.quote(text)] if is_set else [flag]
    # a point alone is a sweep of one: without its values the program would not run
    for name, value in (spec.sweep.values if spec.sweep is not None else {}).items():
        words += ["--sweep", shlex.quote(f"{name}={value}")]
    return " ".join([*words, *map(shlex.quote, program)])


def _typed(name: str, value: Any) -> object:
    match name:
        case "args":
            return shlex.join(value)
        case "env":
            return dict(value)
        case "memory":
            return f"{value / 1e6:g}M"
        case "hang_after" if not value:
            return "off"
    return f"{value:g}" if isinstance(value, float) else value
