"""Stands in for a cell in a child that ``multiprocessing`` spawned: the cell's definitions alone.

It is run by path as ``__mp_main__``, and what it leaves in its namespace is the child's ``__main__``.
"""

import multiprocessing.spawn as _nbdist_spawn

from nbdist.worker import bootstrap as _nbdist_bootstrap
from nbdist.worker import definitions as _nbdist_definitions

_nbdist_bootstrap.print_whole_lines()
_nbdist_definitions.install(_nbdist_spawn)
_nbdist_definitions.load(_nbdist_definitions.program(), globals())
