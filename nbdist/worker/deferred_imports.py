"""Hides modules that were imported ahead of a program until the program imports them.

A program may set ``OMP_NUM_THREADS``, or put a directory in front of sys.path, and import torch only then. It
gets the modules imported before if an import would now find the same files and read the same variables.
Otherwise execve(2) replaces the process by a rank that has not waited, with the same pid, log, socket and
parent. The program then repeats the little that it has done until its import.
"""

from __future__ import annotations

import contextlib
import os
import sys

from nbdist.worker import bootstrap
from nbdist.worker.files import put
from nbdist.worker.main_thread import signal
from nbdist.worker.order import CHANNEL, Assignment, Channel, Order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class DeferredImports:
    """A finder of the modules that it hides. ``early`` are the modules that any process has, ``roots`` those
    that import nearly all others. ``reads`` returns whether an import may have read a variable. ``differs``
    receives the difference in words; where it returns, the program gets the modules all the same."""

    def __init__(
        self,
        early: frozenset[str],
        roots: Sequence[str],
        *,
        reads: Callable[[str], bool],
        differs: Callable[[str], None],
    ) -> None:
        self._roots = roots
        self._reads = reads
        self._differs = differs
        self._environment = dict(os.environ)
        self._processors = os.sched_getaffinity(0)
        self._families = _families(early)
        for family in self._families.values():
            for name in family:
                del sys.modules[name]
        if self._families:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        module = self._families.get(fullname, {}).get(fullname)
        if module is None or module.__spec__ is None:
            return None
        spec = object.__new__(type(module.__spec__))
        vars(spec).update(vars(module.__spec__))
        spec.loader = _ImportedAhead(module, module.__spec__, self.let_pass)  # type: ignore[assignment]
        return spec

    def let_pass(self, name: str) -> None:
        """Unhide the module ``name``, which the program imports, with all that belongs to it."""
        if problem := self._problem(name):
            self._differs(problem)
        for top in self._coming(name):
            sys.modules.update(self._families.pop(top, {}))
        if not self._families and self in sys.meta_path:
            sys.meta_path.remove(self)

    def _coming(self, name: str) -> list[str]:
        return list(self._families) if name in self._roots else [name]

    def open(self) -> None:
        """Unhide all modules: the interpreter ends."""
        for name in list(self._families):
            sys.modules.update(self._families.pop(name))

    def _problem(self, name: str) -> str:
        """Return the reason why an import of ``name`` would now differ; empty where it would not."""
        for key in sorted(self._environment.keys() | os.environ.keys()):
            if self._environment.get(key) != os.environ.get(key) and self._reads(key):
                return f"{key} was set before the program imports {name}"
        if os.sched_getaffinity(0) != self._processors:
            return f"other CPUs were chosen before the program imports {name}"
        for top in self._coming(name):
            if any(part in sys.modules for part in self._families.get(top, ()) if part != name):
                return f"the program has a module {top} of its own"
        module = self._families[name][name]
        finders = [getattr(finder, "find_spec", None) for finder in sys.meta_path if finder is not self]
        spec = next((spec for find in filter(None, finders) if (spec := find(name, None)) is not None), None)
        if spec is None or module.__spec__ is None or spec.origin != module.__spec__.origin:
            return f"{name} is found elsewhere than before"
        return ""


class _ImportedAhead:
    """The loader of a module that is imported already."""

    def __init__(self, module: ModuleType, spec: ModuleSpec, let_pass: Callable[[str], None]) -> None:
        self._module = module
        self._spec = spec
        self._let_pass = let_pass

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        self._let_pass(self._spec.name)
        # the import has replaced it by ours, for which other threads have waited until now
        module.__spec__ = self._spec

    def __getattr__(self, name: str) -> object:
        # a caller of find_spec may use other methods of the loader
        return getattr(self._spec.loader, name)


def _families(early: frozenset[str]) -> dict[str, dict[str, ModuleType]]:
    """Return the modules imported ahead, but the standard library's, by the first part of their names."""
    families: dict[str, dict[str, ModuleType]] = {}
    for name, module in sys.modules.items():
        top = name.partition(".")[0]
        if top not in early and top not in sys.stdlib_module_names and top != "nbdist":
            families.setdefault(top, {})[name] = module
    return {top: family for top, family in families.items() if getattr(family.get(top), "__spec__", None)}


# those of the rank before its program, which may change them
_process, _processors = os.getpid(), os.sched_getaffinity(0)

AGAIN = "--again"
"""Stands before the id of the run on the command line, with the file descriptor of the order."""


def main() -> None:
    """Run the order in the file that the process before this one has left open."""
    at = sys.orig_argv.index(AGAIN)
    file = int(sys.orig_argv[at + 1])
    order = Order.receive(Channel(file))
    os.close(file)
    del sys.orig_argv[at : at + 2]
    bootstrap.run(Channel(), order)


def restart_cold(assignment: Assignment, reason: str, *, noted: bool = True) -> None:
    """Restart as a rank that has not waited; return only in a forked child. ``noted``: it will recur."""
    if os.getpid() != _process:
        _say(f"{reason}, too late for what a forked child of this rank imports: run it with --cold")
        return
    _say(f"this rank begins again, cold: {reason}")
    if noted:
        # the process that keeps ranks waiting gives this program none
        with contextlib.suppress(OSError):
            put(os.path.join(os.path.dirname(assignment.error_file), "again"), reason.encode())
    file = os.memfd_create("nbdist-order", 0)
    os.write(file, assignment.encode())
    os.lseek(file, 0, os.SEEK_SET)
    os.set_inheritable(CHANNEL, True)
    os.chdir(assignment.cwd)
    os.sched_setaffinity(0, _processors)
    # ignored signals would stay ignored; Python sets them in the main thread alone
    with contextlib.suppress(ValueError):
        for number in signal.valid_signals():
            if signal.getsignal(number) == signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    at = len(sys.orig_argv) - 2
    arguments = [*sys.orig_argv[:at], AGAIN, str(file), *sys.orig_argv[at:]]
    os.execve(arguments[0], arguments, assignment.environment)


def _say(what: str) -> None:
    """Write a line to the log, after the program's buffered output."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os.write(2, f"[nbdist] {what}\n".encode())
