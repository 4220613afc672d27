"""The options that a run was started with, from its spec: to start it again, and to write its cell anew."""

from __future__ import annotations

import shlex
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from nbdist import config
from nbdist.engines.options import ADDRESS
from nbdist.model import RunSpec
from nbdist.model.spec import RANKS
from nbdist.options.parser import Options, keyword_words
from nbdist.options.typed_line import COMMAND_FLAGS, MODULE_FLAGS
from nbdist.privacy import MASK

_AS_TYPED = (
    *("framework", "backend", "timeout", "retries", "memory", "args", "keep_inputs", "cwd", "log_dir"),
    *("scrape", "wait", "python_flags", "debug"),
)
_COMMAND = ("worker", "execute.py")  # runs a program that is not Python's, its first argument


def recorded_options(spec: RunSpec) -> dict[str, Any]:
    """Return by the fields of Options those that differ from the defaults, without what nbdist did not
    write down (``privacy``) and without pushed names."""
    here = spec.here[: len(spec.ranks) // spec.nodes]  # with an engine all nodes are here
    gpus = tuple(rank.device.index for rank in here if rank.device.kind == "gpu")
    on_engine = (len(gpus),) if spec.engine and gpus else gpus
    given = {name: getattr(spec, name) for name in _AS_TYPED} | {
        "nproc": None if gpus else len(here),
        "gpus": on_engine or None,
        "name": "" if spec.name in (spec.framework, "run") else spec.name,
        "detach": spec.detached,
        "until": spec.limit,
        "grace": None if spec.grace == config.GRACE else spec.grace,
        "hang_after": spec.hang_after or 0.0,
        "env": tuple((name, value) for name, value in spec.environment.items() if value != MASK),
        "nodes": spec.nodes if spec.nodes > 1 else None,
        "engine": spec.engine or "local",
        "slurm": spec.engine_options if spec.engine == "slurm" else (),
    }
    if spec.engine == "ray":
        given["ray"] = next(iter(spec.engine_options), "").removeprefix(ADDRESS)
    elif spec.nodes > 1 and not spec.engine:
        given |= {"node_rank": spec.node_rank, "master": spec.master}
        given |= {"ips": spec.addresses, "host": spec.host}
    return {name: given[name] for name, usual in _UNASKED.items() if name in given and given[name] != usual}


_UNASKED = {field.name: None if field.default is MISSING else field.default for field in fields(Options)}


def program_words(spec: RunSpec) -> list[str]:
    """Return the script or module of a run and its arguments, as typed; none for a cell."""
    path = Path(spec.program).parts[-2:]
    if path == (spec.run_id, "cell.py"):
        return []
    if path == _COMMAND:
        return [COMMAND_FLAGS[0], *spec.args]
    return [*([MODULE_FLAGS[0], spec.module] if spec.module else [spec.program]), *spec.args]


def first_line(spec: RunSpec) -> str:
    """Return ``%%distributed …`` of a cell, ``%distributed … train.py`` of a script; empty of a session."""
    program = program_words(spec)
    if spec.session is not None:
        return ""
    words = ["%distributed" if program else "%%distributed"]
    for name, value in recorded_options(spec).items():
        # a program without a framework needs no flag
        if name == ("args" if program else "cwd") or (name, value) == ("framework", "none"):
            continue
        for word in keyword_words({name: _typed(name, value)}):
            flag, is_set, text = word.partition("=")
            words += [flag, shlex.quote(text)] if is_set else [flag]
    # a point alone is a sweep of one: without its values the program would not run
    for name, value in (spec.sweep.values if spec.sweep is not None else {}).items():
        words += ["--sweep", shlex.quote(f"{name}={value}")] if name != RANKS else []
    return " ".join([*words, *map(shlex.quote, program)])


def _typed(name: str, value: Any) -> object:
    match name:
        case "args" | "python_flags":
            return shlex.join(value)
        case "env":
            return dict(value)
        case "memory":
            return f"{value / 1e6:g}M"
        case "hang_after" if not value:
            return "off"
    return f"{value:g}" if isinstance(value, float) else value
