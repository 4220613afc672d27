"""A script or a module as the program of a run, found and read as ``python`` does, without an import."""

from __future__ import annotations

import os
import pkgutil
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import decode_source
from pathlib import Path

from nbdist.errors import UsageMistake
from nbdist.frameworks.command_line import check_nested
from nbdist.model.plan import Program
from nbdist.options import COMMAND_FLAGS, MODULE_FLAGS, slug


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A file that ranks can run, by its absolute ``path``; ``module`` is the name behind ``-m``, or empty."""

    path: str
    program: Program
    args: tuple[str, ...]
    name: str
    module: str = ""


def find_script(words: Sequence[str], *, cwd: Path, folder: Path, python_path: str = "") -> Script:
    """Find the program of ``train.py --lr 0.1``, ``-m package.train --lr 0.1`` or ``--no-python ./train.sh``:
    a script from ``cwd``, where it was typed; a module from ``folder``, where the ranks will run, then on
    ``python_path`` (the variable's value). Raises UsageMistake."""
    if not words:
        raise UsageMistake("no script to run: write  nbdist run -n 2 train.py  or  -m package.train")
    check_nested(words)
    if words[0] in MODULE_FLAGS:
        if len(words) == 1:
            raise UsageMistake(f"{words[0]} needs a module: write  nbdist run -n 2 -m package.train")
        above = [folder / entry for entry in python_path.split(os.pathsep) if entry]
        name, program = _module(words[1], [str(path) for path in (folder, *above)] + sys.path)
        return _script(program, words[2:], title=words[1].rpartition(".")[2], module=name)
    if words[0] in COMMAND_FLAGS:
        return _command(words[1:], folder)
    return _script(_file(words[0], cwd), words[1:], title=Path(words[0]).stem)


def _script(path: Path, args: Sequence[str], *, title: str, module: str = "") -> Script:
    return Script(path=str(path), program=_parsed(path), args=tuple(args), name=slug(title), module=module)


EXECUTE = Path(__file__).parent.parent / "worker" / "execute.py"


def _command(words: Sequence[str], folder: Path) -> Script:
    """Return a program of another language: ``EXECUTE`` replaces a rank by it."""
    if not words:
        raise UsageMistake("--no-python needs a program: write  nbdist run -n 2 --no-python ./train.sh")
    program = shutil.which(words[0] if os.sep not in words[0] else str(folder / words[0]))
    if program is None:
        raise UsageMistake(
            f"--no-python {words[0]} is no program that can be run: make it one with  chmod +x"
        )
    return _script(EXECUTE, [program, *words[1:]], title=Path(words[0]).stem)


def _file(name: str, cwd: Path) -> Path:
    path = Path(os.path.abspath(cwd / name))
    if os.path.isdir(path):
        raise UsageMistake(f"{name} is a directory: name the script in it, or a package with  -m")
    if not os.path.exists(path):
        if re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", name) and not name.endswith(".py"):
            raise UsageMistake(f"no script {name}: there is no file {path}: write  -m {name}  for a module")
        if shutil.which(name):
            raise UsageMistake(
                f"{name} is a command, not a script: write  --no-python {name}  if each rank is to run it"
            )
        raise UsageMistake(f"no script {name}: there is no file {path}")
    return path


def _parsed(path: Path) -> Program:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageMistake(f"{path} cannot be read: {error.strerror}") from None
    try:
        return Program.parse(decode_source(data), str(path))
    except SyntaxError as error:
        line = (error.text or "").strip()
        where = f"{path}, line {error.lineno}," if error.lineno else f"{path}"
        text = f": {line}" if line else ""
        raise UsageMistake(f"{where} does not compile: {error.msg}{text}") from None
    except ValueError as error:  # a NUL character
        raise UsageMistake(f"{path} is no Python program: {error}") from None


def _module(name: str, path: list[str]) -> tuple[str, Path]:
    """Return the name and the file that ``python -m NAME`` runs."""
    spec = _spec(name, path)
    if spec is None and name in sys.builtin_module_names:
        raise UsageMistake(f"{name} is no Python file (built-in): ranks cannot run it")
    if spec is None:
        raise UsageMistake(f"no module {name} in {path[0]} or on the Python path: write  -m package.module")
    if spec.submodule_search_locations is not None:
        spec = _spec(f"{name}.__main__", path)
        if spec is None:
            raise UsageMistake(f"{name} is a package without __main__.py: name a module in it")
        name = f"{name}.__main__"
    if not spec.has_location or not str(spec.origin).endswith(".py"):
        raise UsageMistake(f"{name} is no Python file ({spec.origin}): ranks cannot run it")
    return name, Path(os.path.abspath(str(spec.origin)))


def _spec(name: str, path: Sequence[str]) -> ModuleSpec | None:
    """Find a module as ``importlib.util.find_spec`` does, without importing the packages above it."""
    above, _, _ = name.rpartition(".")
    if above:
        package = _spec(above, path)
        if package is None or package.submodule_search_locations is None:
            return None
        path = list(package.submodule_search_locations)
    folders: list[str] = []
    for entry in path:
        finder = pkgutil.get_importer(entry or os.curdir)
        spec = finder.find_spec(name) if finder is not None else None
        if spec is not None and spec.loader is not None:
            return spec
        # folders without __init__.py are one package together
        folders += (spec.submodule_search_locations if spec is not None else None) or ()
    if folders:
        package = ModuleSpec(name, None, is_package=True)
        package.submodule_search_locations = folders
        return package
    # an editable installation may bring a finder of its own
    finders = (finder for finder in sys.meta_path if finder is not PathFinder)
    return next((spec for finder in finders if (spec := finder.find_spec(name, path))), None)
