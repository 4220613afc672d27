"""A command as people type it: what stands in front of a launcher, Python's own options, and the launcher in
each of its forms. ``launchers.toml`` has the words."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NoReturn

from nbdist.errors import UsageMistake
from nbdist.frameworks.launchers import TORCHRUN, flags, launcher_table, line_of, without_dashes
from nbdist.privacy import masked_words

_PYTHON = re.compile(r"python[\d.]*")
_FILE = 1 << 16  # bytes of a shell script in which a launcher is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command: ``own`` are nbdist's words for all in front of the program, ``launcher`` is "" for none.
    ``mixed``: ``rest`` begins with flags that may stand among nbdist's own, else with the program."""

    own: tuple[str, ...] = ()
    launcher: str = ""
    rest: tuple[str, ...] = ()
    mixed: bool = False


def read_command(words: Sequence[str]) -> Command:
    """Return the command in ``words``. Raises UsageMistake for one that nbdist cannot replace."""
    own, rest = _without_prefixes(words)
    interpreter = bool(rest) and _is_python(rest[0])
    if interpreter:
        of_python, rest = without_interpreter(rest)
        own += [f"--python-flags={shlex.join(of_python)}"] if of_python else []
    launcher, length = launcher_of(rest)
    if not launcher:
        if not interpreter:
            _check_program(rest)
            rest = without_dashes(rest)
        return Command(own=tuple(own), rest=tuple(rest))
    behind = rest[length:]
    unknown = launcher_table()["launchers"][launcher].get("unknown", "")
    if not unknown:
        return Command(own=tuple(own), launcher=launcher, rest=tuple(behind), mixed=True)
    line, program = line_of(launcher, unknown, behind)
    return Command(own=(*own, *line), launcher=launcher, rest=tuple(program))


def launcher_of(words: Sequence[str]) -> tuple[str, int]:
    """Return the launcher that ``words`` begin with ("" for none), and the number of its words. A module
    stands behind ``-m``, or is a file."""
    first, used = [PurePath(word).name for word in words[:1]], 1
    if words[:1] == ["-m"]:
        first, used = [f"-m {word.removesuffix('.__main__')}" for word in words[1:2]], 2
    elif words and words[0].endswith(".py"):
        parts = PurePath(words[0].removesuffix("/__main__.py").removesuffix(".py")).parts
        # a name alone may be a script of the user's: deepspeed.py
        first += [f"-m {'.'.join(parts[at:])}" for at in range(len(parts) - 1)]
    found = [
        (used + len(more), launcher)
        for launcher, row in launcher_table()["launchers"].items()
        for head, *more in row["forms"]
        if head in first and list(words[used : used + len(more)]) == more
    ]
    length, launcher = max(found, default=(0, ""))
    return launcher, length


def check_nested(program: Sequence[str]) -> None:
    """Raise UsageMistake for a program that starts ranks itself: each rank would start all of them."""
    command = list(program[1:]) if program[:1] in (["--no-python"], ["--no_python"]) else list(program)
    launcher = launcher_of(command)[0] or _launcher_in_file(command)
    if launcher:
        raise UsageMistake(
            f"{_shown(command)} starts ranks itself, with {launcher}, and each rank would start all of them: "
            f"paste the line of {launcher} alone, as in  nbdist run {launcher} …"
        )


def _is_python(word: str) -> bool:
    return bool(_PYTHON.fullmatch(PurePath(word).name))


def _shown(words: Sequence[str]) -> str:
    return shlex.join(masked_words(words))


def _without_prefixes(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return nbdist's words for what stands in front of a command, and the command. Raises UsageMistake."""
    own: list[str] = []
    rest = list(words)
    while rest:
        if re.fullmatch(r"[A-Za-z_]\w*=.*", rest[0], re.DOTALL):
            own += _variable(*rest.pop(0).split("=", 1))
            continue
        two = tuple(row for row in launcher_table()["before"] if _named(rest[:2]) in row["names"])
        row = next((row for row in launcher_table()["before"] if _named(rest[:1]) in row["names"]), None)
        if not two and row is None:
            break
        more, rest = _without_prefix((two or (row,))[0], rest, 2 if two else 1)
        own += more
    return own, rest


def _named(words: Sequence[str]) -> str:
    return " ".join([PurePath(words[0]).name, *words[1:]])


def _without_prefix(row: Any, words: Sequence[str], length: int) -> tuple[list[str], list[str]]:
    """Return nbdist's words for a prefix, which begins with ``length`` words, and the words behind it.
    Raises UsageMistake for an option that nbdist cannot replace."""
    rest = list(words[length:])
    while rest and rest[0].startswith("-"):
        flag = rest.pop(0)
        if flag == "--":
            break
        value = rest.pop(0) if rest and flag in row.get("valued", ()) else ""
        this = flag in row.get("environment", ()) and value in (sys.prefix, PurePath(sys.prefix).name)
        if not row["taken"] and not this:
            _refuse_prefix(words)
    if row["names"] == ["timeout"] and rest:
        return ["--timeout", rest[0]], rest[1:]
    return [], rest


def _refuse_prefix(words: Sequence[str]) -> NoReturn:
    """Raise UsageMistake for what stands in front of a command."""
    at = next((at for at in range(1, len(words)) if _begins_program(words[at:])), len(words))
    raise UsageMistake(
        f"{_named(words[:1])}: the ranks run in this environment, with {sys.executable}: leave out  "
        f"{_shown(words[:at])}"
    )


def _begins_program(words: Sequence[str]) -> bool:
    return _is_python(words[0]) or words[0].endswith(".py") or bool(launcher_of(words)[0])


def _variable(name: str, value: str) -> list[str]:
    """Return nbdist's words for a variable. Raises UsageMistake."""
    if name == "CUDA_VISIBLE_DEVICES":
        instead = "-n 2  for ranks on the CPU" if value in ("", "-1") else f"--gpus {value}"
        raise UsageMistake(f"CUDA_VISIBLE_DEVICES={value}: leave it out, and write  {instead}")
    if name in launcher_table()["cards"]["variables"]:
        raise UsageMistake(f"{name}={value}: {launcher_table()['cards']['refused']}")
    # torchrun's parser reads its flags from such variables, too
    flag = "--" + name.removeprefix("PET_").lower().replace("_", "-")
    if name.startswith("PET_") and flag in flags(TORCHRUN):
        return [flag, value]
    return ["--env", f"{name}={value}"]


def without_interpreter(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return Python's own options, each letter by itself, and the words from the script or ``-m`` on. Raises
    UsageMistake."""
    rest, of_python = list(words[1:]), []
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--check-hash-based-pycs" and rest:
            of_python += [word, rest.pop(0)]
            continue
        for at, letter in enumerate(word[1:], start=1):
            behind = word[at + 1 :]
            if letter == "m":
                return of_python, ["-m", *([behind] if behind else []), *rest]
            if letter not in "bBdEIOPqRsSuvWxX" or (letter in "WX" and not behind and not rest):
                raise UsageMistake(
                    f"{words[0]} {word}: ranks run a script or a module: write  nbdist run -n 2 train.py"
                )
            if letter in "WX":
                of_python += [f"-{letter}", behind or rest.pop(0)]
                break
            # ranks are unbuffered anyway
            of_python += [f"-{letter}"] * (letter != "u")
    if not rest or rest[0] == "-":
        raise UsageMistake(f"{words[0]} alone is no program: write  nbdist run -n 2 train.py")
    return of_python, rest


def _check_program(words: Sequence[str]) -> None:
    """Raise UsageMistake for a command that is no script and no module."""
    if not words or words[0].startswith("-") or words[0].endswith(".py"):
        return
    program = PurePath(words[0]).name
    for row in launcher_table()["refused"]:
        if program in row["names"]:
            places = {"rest": _shown(words[1:]), "behind": _shown(words[2:]), "verb": _shown(words[1:2])}
            line = row["write"].format(**places) if "write" in row else _instead(program, words[1:])
            raise UsageMistake(f"{program}: {row['reason']}  {line}")
    if program in launcher_table()["shells"] or program.endswith(".sh"):
        if launcher := _launcher_in_file(words):
            raise UsageMistake(
                f"{_shown(words)} starts ranks itself, with {launcher}: paste its line of {launcher} behind  "
                "nbdist run"
            )
        raise UsageMistake(
            f"{program} is no Python program: write  --no-python {_shown(words)}  if each rank is to run it"
        )
    behind = (words[at:] for at in range(1, len(words)))
    if not os.path.exists(words[0]) and any(map(_begins_program, behind)):
        _refuse_prefix(words)


def _launcher_in_file(words: Sequence[str]) -> str:
    """Return the launcher that a shell script among ``words`` starts; empty for none."""
    for word in words:
        path = Path(word)
        if path.suffix in (".sh", ".bash") and path.is_file():
            text = path.read_bytes()[:_FILE].decode(errors="replace").replace("\\\n", " ")
            words = re.findall(r"[^\s\"';&|()]+", re.sub(r"(?m)^\s*#.*", "", text))
            found = (launcher_of(words[at:])[0] for at in range(len(words)))
            return next(filter(None, found), "")
    return ""


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
    line = _shown(["nbdist", "run", "-n", count, *script])
    return f"{line} , on other machines with  --on slurm --nodes 2" if program == "srun" else line
