"""The exchanges of gradients inside a backward pass, on CPUs.

DDP of torch exchanges beside the pass and waits at its end: a hook of the node that accumulates the last
gradient comes just before. Paddle's native code begins the exchange of a group of parameters once their last
gradient is there, and with gloo it waits for its end before it computes the next gradient. The first pass
shows the order of the gradients; from then on hooks of few parameters remain.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

from nbdist.worker.step_time import StepTimer
from nbdist.worker.training_facts import device_of, trains

_clock = time.perf_counter_ns


class GradientExchanges:
    """The exchanges of a model of DDP or paddle's DataParallel, which ``timer`` takes as waits if the pass
    ``synchronizes``: the value of the model's attribute ``switch`` when it was called. ``order``: that of the
    gradients in the first pass, until it is settled."""

    def __init__(self, timer: StepTimer, model: Any) -> None:
        self._note, self._waited, self._computes = timer.events.append, timer.waited, timer.computes
        self._groups: Any = getattr(model, "group_indices", ())
        self._is_torch = hasattr(model, "require_backward_grad_sync")
        self.switch = "require_backward_grad_sync" if self._is_torch else "grad_need_sync"
        self.synchronizes = False
        self.order: list[int] = []
        self._since = 0
        parameters = filter(trains, model.parameters() if self._is_torch or self._groups else ())
        # those whose gradients are exchanged, in the order of paddle's numbers
        self._parameters = [each for each in parameters if not getattr(each, "no_sync", False)]
        if any(device_of(each) != "cpu" for each in self._parameters):
            self._parameters = []  # with a GPU, the main thread waits for that, too
        self._hooks = [
            parameter.register_hook(functools.partial(self._learn, number))
            for number, parameter in enumerate(self._parameters)
        ]

    def _learn(self, number: int, _: object) -> None:
        self.order.append(number)

    def settle(self) -> None:
        """Replace the hooks of the first pass."""
        if self._is_torch and not sys.modules["torch"].is_grad_enabled():
            return
        for hook in self._hooks:
            hook.remove()
        numbers, self.order = list(dict.fromkeys(self.order)), []
        places, end = {number: place for place, number in enumerate(numbers)}, len(numbers) - 1
        last = {max((places[n] for n in group if n in places), default=end) for group in self._groups}
        for place in sorted(last - {end}):
            self._parameters[numbers[place]].register_hook(self._waits)
            self._parameters[numbers[place + 1]].register_hook(self._goes_on)
        node = self._parameters[numbers[end]]
        if self._is_torch:
            # after DDP's own hook, which begins the exchange of this gradient
            ((node, _),) = node.expand_as(node).grad_fn.next_functions
        node.register_hook(self._ends)
        self._parameters = []

    def _waits(self, _: object) -> None:
        self._since = _clock() if self.synchronizes else 0

    def _goes_on(self, _: object) -> None:
        if self._since:
            self._note((self._waited, self._since, _clock()))

    def _ends(self, *_: object) -> None:
        if self.synchronizes:
            self._note((self._computes, _clock()))
