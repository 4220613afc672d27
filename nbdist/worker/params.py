"""``nbdist.params``: in a run of a sweep, the values of its point."""

from __future__ import annotations

import json
import os

from nbdist.worker.order import PARAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Params(dict):  # type: ignore[type-arg]  # its values are of any type
    """A dict whose items are attributes, too: ``params.lr``, ``params["lr"]``, ``params.get("lr", 0.1)``,
    ``parser.set_defaults(**params)``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(str(error.args[0])) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __missing__(self, name: str) -> Any:
        there = f"the sweep has {', '.join(self)}" if self else "this run is not of a sweep"
        raise KeyError(f"nbdist.params has no {name}: {there}; nbdist.params.get({name!r}, …) has a default")


def _read() -> Params:
    return Params(json.loads(os.environ.get(PARAMS, "{}")))


params = _read()
"""Empty in a run that is not of a sweep, and in a notebook."""
