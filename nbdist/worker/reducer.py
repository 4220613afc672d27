"""Names the layers of which DistributedDataParallel tells only the numbers of their parameters."""

from __future__ import annotations

import re

from nbdist.worker.operands import frames_of, is_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from nbdist.worker.operands import Described

_MOST_LISTED = 3

_OF_REDUCER = re.compile(
    r"Parameter (?:indices which did not receive grad for rank \d+:|at index) (?P<places>\d+(?: \d+)*)"
)
"""How DistributedDataParallel names parameters, unless TORCH_DISTRIBUTED_DEBUG is set."""


def layers_of_reducer(error: BaseException, trace: TracebackType | None) -> list[Described]:
    """Return the layers whose parameters the error numbers, named for what it complains of."""
    complaint = _OF_REDUCER.search(str(error))
    frames = frames_of(trace)
    own = [at for at, (frame, _) in enumerate(frames) if not is_library(frame.f_code.co_filename)]
    if complaint is None or not own:
        return []
    frame, line = frames[own[-1]]
    places = set(map(int, complaint["places"].split()))
    known: list[Any] = [outer.f_locals.get("self") for outer, _ in frames]
    # in backward() it is no longer called
    known += [*frame.f_locals.values(), *frame.f_globals.values()]
    models = {id(value): value for value in known if hasattr(type(value), "_build_params_for_reducer")}
    if len(models) != 1:
        return []
    model = next(iter(models.values()))
    named = [
        name
        for name, parameter in model.module.named_parameters()
        if parameter.requires_grad and name not in model.parameters_to_ignore
    ]
    layers = dict.fromkeys(name.rpartition(".")[0] or name for at, name in enumerate(named) if at in places)
    what = "without gradient" if "not receive" in complaint[0] else "gradient twice"
    return [(frame.f_code.co_filename, line, what, _listed(list(layers)))] if layers else []


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more
