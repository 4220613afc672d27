"""The exchanges of gradients inside of paddle's backward.

Paddle's native code begins the exchange of a group of parameters once their last gradient is there, and with
gloo it waits for its end before it computes the next gradient. The first pass shows the order of the
gradients; from then on hooks of few parameters remain.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from nbdist.worker.step_time import StepTimer


class PaddleExchanges:
    """The exchanges of one model of DataParallel, which ``timer`` takes as waits. ``synchronizes``: the pass
    that comes does exchange gradients."""

    def __init__(self, timer: StepTimer, model: Any) -> None:
        self._timer = timer
        self.synchronizes = False
        self._groups = model.group_indices
        self._order: list[int] = []
        self._since = 0
        layers = (layer.named_parameters(include_sublayers=False) for layer in model.sublayers())
        by_id = {id(parameter): parameter for named in layers for _, parameter in named}
        trained = (parameter for parameter in by_id.values() if parameter.trainable)
        self._parameters = [parameter for parameter in trained if not getattr(parameter, "no_sync", False)]
        self._hooks = [
            parameter.register_hook(functools.partial(self._learn, number))
            for number, parameter in enumerate(self._parameters)
        ]

    def _learn(self, number: int, _: object) -> None:
        self._order.append(number)

    def settle(self) -> bool:
        """Replace the hooks of the first pass; return whether there was one."""
        if not self._order:
            return False
        for hook in self._hooks:
            hook.remove()
        numbers = list(dict.fromkeys(self._order))
        places = {number: place for place, number in enumerate(numbers)}
        last = (
            max((places[number] for number in group if number in places), default=-1)
            for group in self._groups
        )
        for place in sorted({*last} - {-1}):
            is_last = place == len(numbers) - 1
            self._parameters[numbers[place]].register_hook(self._ends if is_last else self._waits)
            if not is_last:
                self._parameters[numbers[place + 1]].register_hook(self._goes_on)
        self._parameters.clear()
        return True

    def _waits(self, _: object) -> None:
        self._since = time.perf_counter_ns() if self.synchronizes else 0

    def _goes_on(self, _: object) -> None:
        if self._since:
            self._timer.waited(self._since, time.perf_counter_ns())

    def _ends(self, _: object) -> None:
        if self.synchronizes:
            self._timer.computed = time.perf_counter_ns()
