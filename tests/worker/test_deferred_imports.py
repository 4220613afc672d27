"""The gate between a program and what was imported before it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks wait on Linux alone")

# "heavy" imports "light", as torch imports numpy
DRIVER = """
import os, sys
early = frozenset(sys.modules)
sys.path.insert(0, PLACE)
import heavy.deep
from nbdist.worker.deferred_imports import DeferredImports
def read(name):
    return name.startswith("HEAVY")
gate = DeferredImports(early, ["heavy"], reads=read, differs=lambda reason: print("!", reason))
"""
AHEAD = {
    "heavy/__init__.py": "import os, light\nN = os.environ.get('HEAVY', '1')\nprint('heavy is imported')",
    "heavy/deep.py": "DEEP = 'deep'",
    "light/__init__.py": "from light import inner",
    "light/inner.py": "INNER = 'inner'",
}


@pytest.fixture
def printed_by(tmp_path: Path):
    """Return a function that returns the printed lines of a program behind the gate."""
    _write(tmp_path / "ahead", AHEAD)
    _write(tmp_path / "other", {"heavy/__init__.py": "N = 'other'"})

    def run(program: str) -> list[str]:
        driver = DRIVER.replace("PLACE", repr(str(tmp_path / "ahead")))
        command = [sys.executable, "-c", f"{driver}\nOTHER = {str(tmp_path / 'other')!r}\n{program}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.splitlines()[1:]

    return run


BRINGS = {
    "not there": ("print([name for name in sys.modules if name[:5] in ('heavy', 'light')])", "[]"),
    "imported": ("import heavy\nprint(heavy.N, heavy.deep.DEEP)", "1 deep"),
    "all of it": ("import heavy\nprint('light.inner' in sys.modules, gate in sys.meta_path)", "True False"),
    "by a part": ("import heavy.deep as d\nprint(d.DEEP)", "deep"),
    "from a part": ("from light.inner import INNER\nprint(INNER)", "inner"),
    "a small one alone": ("import light\nprint('heavy' in sys.modules)", "False"),
    "a small one first": ("import light, heavy\nprint(heavy.light is light)", "True"),
    "with its own loader": (
        "import heavy\nprint(type(heavy.__loader__).__name__, heavy.__loader__ is heavy.__spec__.loader)",
        "SourceFileLoader True",
    ),
    "only looked for": (
        "from importlib import util\nspec = util.find_spec('heavy')\n"
        "print(spec.origin == spec.loader.path, spec.has_location, 'heavy' in sys.modules)\nimport heavy",
        "True True False",
    ),
    "reload": ("import importlib, heavy\nprint(importlib.reload(heavy) is heavy)", "heavy is imported\nTrue"),
    "another variable": ("os.environ['MINE'] = '1'\nimport heavy\nprint(heavy.N)", "1"),
    "another place without it": ("sys.path[:0] = ['/nowhere', '/tmp']\nimport heavy\nprint(heavy.N)", "1"),
    "by threads at once": (
        "def load():\n    import heavy\n"
        "from threading import Thread\nt = [Thread(target=load) for _ in range(8)]\n"
        "[x.start() for x in t]\n[x.join() for x in t]\nprint(sys.modules['heavy'].N)",
        "1",
    ),
    "what is not there": (
        "try:\n    import heavier\nexcept ModuleNotFoundError as e:\n    print(e)",
        "No module named 'heavier'",
    ),
    "at the end": ("gate.open()\nprint('heavy' in sys.modules, 'light' in sys.modules)", "True True"),
}


@pytest.mark.parametrize(("program", "printed"), BRINGS.values(), ids=BRINGS)
def test_a_program_gets_what_an_import_would_bring(printed_by, program: str, printed: str) -> None:
    assert printed_by(program) == printed.splitlines()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        pytest.param("os.environ['HEAVY_N'] = '2'", "HEAVY_N was set before", id="a variable"),
        pytest.param("import light\nos.environ['HEAVY_N'] = '2'", "HEAVY_N was set before", id="between two"),
        pytest.param("os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])", "other CPUs", id="the CPUs"),
        pytest.param("sys.path.insert(0, OTHER)", "heavy is found elsewhere", id="another one"),
        pytest.param("sys.path.remove(sys.path[0])", "heavy is found elsewhere", id="none"),
        pytest.param(
            "sys.modules['light'] = sys", "the program has a module light of its own", id="one in its place"
        ),
    ],
)
def test_what_would_be_another_import_is_said(printed_by, program: str, reason: str) -> None:
    if "affinity" in program and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("one CPU leaves no choice")

    (line,) = printed_by(f"{program}\nimport heavy")

    assert line.startswith("! ")
    assert reason in line


def _write(place: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
