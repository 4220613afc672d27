"""The ``__main__`` of a child that ``multiprocessing`` spawned from a cell: all of a cell with a guard, of
others the definitions. ``multiprocessing`` runs it by path as ``__mp_main__``."""

import multiprocessing.spawn as _nbdist_spawn

from nbdist.worker import bootstrap as _nbdist_bootstrap
from nbdist.worker import definitions as _nbdist_definitions
from nbdist.worker import framework_hooks as _nbdist_hooks

_nbdist_bootstrap.print_whole_lines()
_nbdist_hooks.mend_ends()
_nbdist_definitions.install(_nbdist_spawn)
_nbdist_definitions.load(_nbdist_definitions.program(), globals())
