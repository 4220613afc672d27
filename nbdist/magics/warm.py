"""``%dist_warm``: ranks that wait for the next cell with their imports done."""

from __future__ import annotations

import shlex

from IPython.core.magic import Magics, line_magic, magics_class

from nbdist import runner
from nbdist.errors import UsageMistake
from nbdist.magics.presentation import as_usage_errors
from nbdist.options import LineParser

_USAGE = "%dist_warm [N|auto|off] [--framework torch|paddle|jax]"


@magics_class
class WarmMagics(Magics):
    """The line magic about ranks that wait."""

    @line_magic
    def dist_warm(self, line: str) -> None:
        """Keep N ranks ready for the next cell: ``%dist_warm 2``, ``%dist_warm 2 --framework paddle``.

        They have imported the framework and wait; a cell with ``-n 2`` then runs at once, in processes that
        have run nothing else. ``%dist_warm auto`` makes as many ready as the last cell had, ``%dist_warm
        off`` lets them go; ``%dist_warm`` alone says what there is.
        """
        parser = LineParser(_USAGE)
        parser.add_argument("count", nargs="?", default="")
        parser.add_argument("--framework", choices=("torch", "paddle", "jax"), default="")
        with as_usage_errors():
            asked = parser.parse_args(shlex.split(line))
            _do(asked.count, asked.framework)
            state = runner.warm_ranks.state()
        said = runner.describe_warm(state)
        print(f"[nbdist] {said[0] if said else f'warm: {state.mode}; no ranks wait'}")


def _do(count: str, framework: str) -> None:
    if count in ("auto", "off"):
        runner.warm_ranks.choose(count)
    elif count.isdigit() and 0 < int(count) <= 64:
        runner.keep_ready(int(count), framework)
    elif count or framework:
        raise UsageMistake(f"%dist_warm {count}: write  {_USAGE}")
