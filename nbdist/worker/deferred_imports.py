"""Hides modules that were imported ahead of a program until the program imports them.

A program may set ``OMP_NUM_THREADS``, or put a directory in front of sys.path, and import torch only then.
So it gets what was imported before if an import would now bring the same, and read the same. Otherwise the
process is replaced (execve(2)) by a rank that has not waited: its number, its log, its socket and its parent
stay the same. What the program did until then, it does a second time; that is little.
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
    """A finder of the modules that it holds: ``early`` are the names of modules that any process has,
    ``roots`` those that import nearly all others. ``reads`` tells of a variable whether an import may have
    read it. ``differs`` is called with what would be different, in words; where it returns, the modules come
    all the same."""

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
        """The program imports the module ``name``: what belongs to it is there from now on."""
        if problem := self._problem(name):
            self._differs(problem)
        for top in self._coming(name):
            sys.modules.update(self._families.pop(top, {}))
        if not self._families and self in sys.meta_path:
            sys.meta_path.remove(self)

    def _coming(self, name: str) -> list[str]:
        return list(self._families) if name in self._roots else [name]

    def open(self) -> None:
        """Nothing is kept back any longer: the interpreter ends."""
        for name in list(self._families):
            sys.modules.update(self._families.pop(name))

    def _problem(self, name: str) -> str:
        """Return why an import of ``name`` would now be another one; empty when it would not."""
        for key in sorted(self._environment.keys() | os.environ.keys()):
            if self._environment.get(key) != os.environ.get(key) and self._reads(key):
                return f"{key} was set before the program imports {name}"
        if os.sched_getaffinity(0) != self._processors:
            return f"other CPUs were chosen before the program imports {name}"
        for top in self._coming(name):
            if any(part in sys.modules for part in self._families.get(top, ()) if part != name):
                return f"the program has a module {top} of its own"
        module = self._families[name][name]
        found = self._found_by_others(name)
        if found is None or module.__spec__ is None or found.origin != module.__spec__.origin:
            return f"{name} is found elsewhere than before"
        return ""

    def _found_by_others(self, name: str) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None and (spec := find(name, None)) is not None:
                return spec  # type: ignore[no-any-return]
        return None


class _ImportedAhead:
    """The loader of a module that there is."""

    def __init__(self, module: ModuleType, spec: ModuleSpec, let_pass: Callable[[str], None]) -> None:
        self._module = module
        self._spec = spec
        self._let_pass = let_pass

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        self._let_pass(self._spec.name)
        # the import had written ours over it; until now other threads have waited for that
        module.__spec__ = self._spec

    def __getattr__(self, name: str) -> object:
        # a caller that asks for the spec alone may ask its loader for more
        return getattr(self._spec.loader, name)


def _families(early: frozenset[str]) -> dict[str, dict[str, ModuleType]]:
    """Return the modules that were imported ahead, by the first part of their names. What the interpreter
    brings does not count: what a process has of it cannot be known."""
    families: dict[str, dict[str, ModuleType]] = {}
    for name, module in sys.modules.items():
        top = name.partition(".")[0]
        if top not in early and top not in sys.stdlib_module_names and top != "nbdist":
            families.setdefault(top, {})[name] = module
    return {top: family for top, family in families.items() if getattr(family.get(top), "__spec__", None)}


# of the rank before its program begins, which may change them
_process, _processors = os.getpid(), os.sched_getaffinity(0)

AGAIN = "--again"
"""Stands before the id of the run on the command line, with the file descriptor of the order."""


def main() -> None:
    """Be the rank whose order is in the file that the process before this one has left open."""
    at = sys.orig_argv.index(AGAIN)
    told = int(sys.orig_argv[at + 1])
    order = Order.receive(Channel(told))
    os.close(told)
    del sys.orig_argv[at : at + 2]
    bootstrap.run(Channel(), order)


def restart_cold(assignment: Assignment, reason: str, *, noted: bool = True) -> None:
    """Begin again as a rank that has not waited. It returns only in a forked child, which is no rank.
    ``noted``: the next run of the program would come to the same."""
    if os.getpid() != _process:
        _say(f"{reason}, too late for what a forked child of this rank imports: run it with --cold")
        return
    _say(f"this rank begins again, cold: {reason}")
    if noted:
        # for the process that keeps ranks waiting: not for this program
        with contextlib.suppress(OSError):
            put(os.path.join(os.path.dirname(assignment.error_file), "again"), reason.encode())
    told = os.memfd_create("nbdist-order", 0)
    os.write(told, assignment.encode())
    os.lseek(told, 0, os.SEEK_SET)
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
    arguments = [*sys.orig_argv[:at], AGAIN, str(told), *sys.orig_argv[at:]]
    os.execve(arguments[0], arguments, assignment.environment)


def _say(what: str) -> None:
    """Into the log, behind what the program has written, wherever it writes now."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os.write(2, f"[nbdist] {what}\n".encode())
