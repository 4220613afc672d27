"""Everything nbdist raises on purpose, by who can mend it.

    NbdistError
    ├── UsageMistake       whoever typed the line: nothing was started, nothing was lost
    │   └── UnknownRun
    ├── LaunchError        the machine: no disk, no port, no interpreter
    ├── RunFailed          the program in the cell
    ├── RunCancelled       somebody stopped the run
    └── IllegalTransition  us

A message says what was asked, what is there, and what to type instead. Only ``magics`` turns these
into what IPython prints, only ``cli`` into exit codes, and only ``server`` into HTTP.
"""

from __future__ import annotations

__all__ = [
    "IllegalTransition",
    "LaunchError",
    "NbdistError",
    "RunCancelled",
    "RunFailed",
    "UnknownRun",
    "UsageMistake",
]


class NbdistError(Exception):
    """The root of all errors that nbdist raises on purpose."""


class UsageMistake(NbdistError):
    """What was typed cannot be done; the message is one line and says what to type instead."""


class UnknownRun(UsageMistake):
    """No run has this id, name or ending of an id."""


class LaunchError(NbdistError):
    """The machine did not let the run start."""


class RunFailed(NbdistError):
    """A run ended as FAILED or LOST; the message is the whole report for a person."""


class RunCancelled(NbdistError):
    """A run ended because somebody stopped it."""


class IllegalTransition(NbdistError):
    """A state was to follow another that it must not follow: a defect in nbdist."""
