"""The command lines of other launchers, in the words of nbdist."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from nbdist.errors import UsageMistake
from nbdist.frameworks import other_launchers
from nbdist.frameworks.launcher_flags import FLAGS, FLEETRUN, PADDLE, TORCHRUN, Flag
from nbdist.frameworks.other_launchers import without_prefix

_MODULES = {
    "torch.distributed.run": TORCHRUN,
    "torch.distributed.launch": TORCHRUN,
    "paddle.distributed.launch": PADDLE,
    "paddle.distributed.fleet.launch": FLEETRUN,
}
_BY_NAME = {flag.name: flag for flag in FLAGS} | {flag.short: flag for flag in FLAGS if flag.short}


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """Words of another launcher as nbdist's. ``any_device``: ranks were asked for without saying whether
    they are to have GPUs. ``notes`` name what has no effect here."""

    words: tuple[str, ...]
    any_device: bool = False
    notes: tuple[str, ...] = ()


def flag_of(word: str) -> Flag | None:
    """The flag that ``word`` (``--flag``, ``--flag=value`` or ``-t3``) is; None for what is no other
    launcher's, or nbdist's own by the same name."""
    if not word.startswith("-"):
        return None
    name = word.partition("=")[0].replace("_", "-")
    if name.startswith("--"):
        return _BY_NAME.get(name)
    return _BY_NAME.get(name[:2])


def translated(words: Sequence[str]) -> Translated:
    """``words`` with other launchers' flags as options of nbdist. Raises UsageMistake for what cannot be."""
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
        value = _value(word, rest) if flag.valued else _no_value(flag, word)
        own += flag.becomes(value)
        any_device |= flag.name == "--nproc-per-node"
        if flag.no_effect:
            idle[flag.name] = flag.no_effect
    notes = tuple(f"{name} has no effect here: {reason}" for name, reason in idle.items())
    return Translated(words=tuple(own), any_device=any_device, notes=notes)


def behind_launcher(words: Sequence[str]) -> tuple[str, list[str]]:
    """Which launcher a pasted command line begins with ("" for none), and what stands behind it.

    Variables in front of it become ``--env``, and what only surrounds it (``uv run``) is left out. Raises
    UsageMistake for what is not done here.
    """
    given, rest = without_prefix(words)
    name, length = _head(rest)
    own = rest[length:]
    if not name:
        name, own = other_launchers.read(rest)
    if not name:
        return "", list(words)
    return name, [*(word for text in given for word in _variable(*text.split("=", 1))), *own]


def _variable(name: str, value: str) -> list[str]:
    if name == "CUDA_VISIBLE_DEVICES":
        raise UsageMistake(f"CUDA_VISIBLE_DEVICES={value}: choose the GPUs of the run with  --gpus {value}")
    return ["--env", f"{name}={value}"]


def _head(words: Sequence[str]) -> tuple[str, int]:
    """The launcher at the beginning of ``words`` and how many words it is."""
    if not words:
        return "", 0
    program = PurePath(words[0]).name
    if program in (TORCHRUN, FLEETRUN):
        return program, 1
    if not re.fullmatch(r"python[\d.]*", program):
        return "", 0
    at = next((n for n, word in enumerate(words[1:], start=1) if word not in ("-u", "-B", "-O")), len(words))
    if list(words[at : at + 1]) == ["-m"] and words[at + 1 : at + 2]:
        module = words[at + 1].removesuffix(".__main__")
        if (launcher := _MODULES.get(module)) is not None:
            return launcher, at + 2
    return "", 0


def _value(word: str, rest: list[str]) -> str:
    if not word.startswith("--") and len(word) > 2:
        return word[2:].removeprefix("=")
    _, equals, value = word.partition("=")
    if equals:
        return value.strip("\"'")
    if not rest or (rest[0].startswith("-") and not rest[0].lstrip("-").isdigit()):
        raise UsageMistake(f"{word} needs a value: write  {word}=VALUE")
    return rest.pop(0)


def _no_value(flag: Flag, word: str) -> str:
    if "=" in word:
        raise UsageMistake(f"{flag.name} takes no value: write  {flag.name}")
    return ""
