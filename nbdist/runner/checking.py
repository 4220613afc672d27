"""The checks of a planned run before it starts, with the facts about this machine that they need."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nbdist.devices.gpus import list_gpus, other_cards
from nbdist.errors import UsageMistake
from nbdist.model.plan import Plan
from nbdist.privacy import masked_text
from nbdist.text import say

if TYPE_CHECKING:
    from nbdist.preflight import Finding, Holding, Origin, Situation

_MOST = 8
_OF_NOTEBOOK = frozenset({"name-defined", "name-of-short-data", "name-of-data"})
_CARD = re.compile(r"^torch(?:_|\.(?=.pu\.set_))([nx]pu)\b|\b(?:to|device|set_device):([nx]pu)\b")
_PUSH = re.compile(r"--push[ =]\S+")


def check_program(
    plan: Plan,
    *,
    language: str = "en",
    origin: Callable[[str], Origin | None] = lambda _: None,
    typed: str = "",
) -> tuple[str, ...]:
    """Return the warnings about the program; ``origin`` returns where the notebook defined a name, ``typed``
    is the line behind ``%%distributed``. Raises UsageMistake for a program that cannot work."""
    # slow to import, and this module is imported with nbdist
    from nbdist.preflight import check

    path = _path(plan)
    # a module that a cell has just written
    importlib.invalidate_caches()
    script = "" if plan.is_cell else os.path.basename(plan.spec.program)
    try:
        if not plan.spec.engine and re.search(r"\b(?:torch_)?[nx]pu\b", plan.program.text):
            _check_cards(plan, language, script)
        findings = check(plan.program.tree, _situation(plan, path, origin), path)
    except RecursionError:
        return ()
    push, line = _push_instead(plan, findings, typed, language)
    certain = any(finding.certain for finding in findings)
    if push:
        findings = [finding for finding in findings if finding.rule.name not in _OF_NOTEBOOK]
    errors = [finding.text(language, script) for finding in findings if finding.certain]
    warnings = [finding.text(language, script) for finding in findings if not finding.certain]
    if errors or certain:
        # a name that another cell made is one line, with all the others
        add = push if not errors else ""
        raise UsageMistake(
            "\n".join([*line, *_shortened([*errors, *warnings])]), add=add, instead_of="--push"
        )
    return (*line, *_shortened(warnings))


def _check_cards(plan: Plan, language: str, script: str) -> None:
    """Raise UsageMistake for a program that surely asks for a card that is not NVIDIA's, and is not here."""
    from nbdist.preflight import Program, where

    program, cards = Program.of(plan.program.tree), other_cards(plan.environment)
    asks = [(name, program.places[node], node.lineno) for name, node in program.imports()]
    for call in program.calls:
        device = program.value(call.argument("device", 0))
        asks.append((f"{call.name or call.method}:{device}", call.place, call.line))
    for text, place, line in asks:
        match = _CARD.search(text) if place.always and place.plain else None
        if match and cards != (card := match[match.lastindex or 0].upper()):
            fields = {"cards": card, "place": where(line, script, language)}
            raise UsageMistake(say("runs.other-cards", language, **fields))


def _push_instead(
    plan: Plan, findings: Sequence[Finding], typed: str, language: str
) -> tuple[str, list[str]]:
    """Return the option that pushes the names of the notebook that the ranks lack, and a line that says so;
    empty where none lacks or can be pushed."""
    unpushed = [finding.values for finding in findings if finding.rule.name in _OF_NOTEBOOK]
    missing = [values["name"] for values in unpushed]
    if not missing or not plan.is_cell or (plan.spec.nodes > 1 and not plan.spec.engine):
        return "", []
    names = [*(pushed.name for pushed in plan.spec.inputs if pushed.asked), *missing]
    push = f"--push {','.join(names)}"
    line = f"{_PUSH.sub('', masked_text(typed)).strip()} {push}".strip()
    return push, [say("runs.push-instead", language, names=tuple(missing), line=line)]


def _shortened(lines: Sequence[str]) -> list[str]:
    left = len(lines) - _MOST
    return [*lines[:_MOST], f"and {left} more"] if left > 0 else [*lines]


def _path(plan: Plan) -> list[str]:
    """Return the folders where the ranks look for modules."""
    spec = plan.spec
    if spec.python_path:
        return [entry or spec.cwd for entry in spec.python_path]
    first = spec.cwd if spec.module else os.path.dirname(os.path.realpath(spec.program))
    more = [entry for entry in plan.environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return [first, *(os.path.join(spec.cwd, entry) for entry in more), *sys.path[1:]]


def _situation(plan: Plan, path: Sequence[str], origin: Callable[[str], Origin | None]) -> Situation:
    from nbdist.devices.gpus import driver
    from nbdist.preflight import Situation, capabilities

    spec = plan.spec
    devices = [rank.device for rank in spec.ranks if rank.node_rank == spec.node_rank]
    gpus = tuple(device.index for device in devices if device.kind == "gpu")
    # an engine chooses the machine later
    own_gpus = gpus if not spec.engine else ()
    installed_driver = driver() if own_gpus else None
    shared_memory = None
    with contextlib.suppress(OSError):
        stat = os.statvfs("/dev/shm")
        shared_memory = stat.f_blocks * stat.f_frsize
    return Situation(
        world_size=spec.world_size,
        gpus=gpus,
        machine_gpus=lambda: (
            len(gpus) if spec.engine else len(list_gpus(os.environ.get("CUDA_VISIBLE_DEVICES")))
        ),
        args=spec.args,
        given=frozenset(pushed.name for pushed in spec.inputs),
        environment=plan.environment,
        shared_memory=shared_memory,
        driver_cuda=installed_driver.cuda if installed_driver is not None else "",
        held=_held(own_gpus) if own_gpus else (),
        installed=lambda name: capabilities.is_importable(name, path),
        version=capabilities.version_of,
        build=functools.cache(lambda framework: capabilities.build_of(framework, path)),
        origin=origin,
    )


def _held(gpus: Sequence[int]) -> tuple[Holding, ...]:
    """Return the memory of these GPUs that other processes hold, and whose they are."""
    from nbdist.devices.gpus import describe_holder, open_loads
    from nbdist.preflight import Holding

    with open_loads(gpus) as look:
        return tuple(
            Holding(
                gpu=load.index,
                memory=load.memory or 0,
                total=load.memory_total or 0,
                holder=", ".join(describe_holder(pid) for pid, _ in load.processes[:3]) if load.ours else "",
            )
            for load in look()
        )
