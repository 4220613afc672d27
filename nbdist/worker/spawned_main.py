"""Stands in for a cell in a child that ``multiprocessing`` spawned: the cell's definitions alone.

It is run by path as ``__mp_main__``, and what it leaves in its namespace is the child's ``__main__``.
"""

import multiprocessing.spawn as _nbdist_spawn

from nbdist.worker import definitions as _nbdist_definitions
from nbdist.worker import whole_lines as _nbdist_lines

_nbdist_lines.install()
_nbdist_definitions.install(_nbdist_spawn)
_nbdist_definitions.load(_nbdist_definitions.program(), globals())
