"""The errors that nbdist raises on purpose, by who can correct them: user, machine, program, or nbdist.

    NbdistError
    ├── UsageMistake       a mistake in the line: nothing was started, nothing was lost
    │   ├── UnknownResult    also a KeyError
    │   └── UnknownRun
    │       └── NotPrivate   another user has filled the directory, or could have
    ├── LaunchError        the machine: no disk, no port, no interpreter
    ├── RunFailed          the program in the cell
    ├── RunStopped       the run was stopped on request
    └── IllegalTransition  a defect in nbdist

A message has the request, the facts, and what to type instead. Only ``magics`` turns these into what IPython
prints, only ``cli`` into exit codes, and only ``server`` into HTTP.
"""

from __future__ import annotations


class NbdistError(Exception):
    """The root of all errors that nbdist raises on purpose."""


class UsageMistake(NbdistError):
    """A request that cannot be met; the message is one line and says what to type instead. ``add`` are
    options that mend the line, in place of the option ``instead_of``."""

    def __init__(self, message: str, *, add: str = "", instead_of: str = "") -> None:
        super().__init__(message)
        self.add, self.instead_of = add, instead_of


class UnknownResult(UsageMistake, KeyError):
    """A rank has no readable result of this name."""

    __str__ = Exception.__str__  # a KeyError's has quotes around


class UnknownRun(UsageMistake):
    """No run has this id, name or ending of an id."""


class NotPrivate(UnknownRun):
    """A directory is not read, because another user filled it or could have filled it. ``problem`` is the
    message without its name and without what to type."""

    def __init__(self, place: object, problem: str, remedy: str) -> None:
        super().__init__(f"{place} {problem}: {remedy}")
        self.problem = problem


class LaunchError(NbdistError):
    """The machine did not let the run start."""


class RunFailed(NbdistError):
    """A run ended as FAILED or LOST; the message is the whole report for a person."""


class RunStopped(NbdistError):
    """A person or a program stopped the run."""


class IllegalTransition(NbdistError):
    """A state must not follow another one: a defect in nbdist."""
