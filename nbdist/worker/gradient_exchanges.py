"""The exchanges of gradients inside a backward pass, on CPUs.

DDP of torch exchanges beside the pass, and waits in a callback at its end: one that is queued before the last
gradient is there comes just before it. Paddle's native code begins the exchange of a group of parameters once
their last gradient is there, and with gloo it waits for its end before it computes the next gradient. The
first pass shows the order of the gradients; from then on hooks of few parameters remain.
"""

from __future__ import annotations

import functools
import sys
import time
import weakref
from typing import Any

from nbdist.worker.step_time import StepTimer
from nbdist.worker.training_facts import device_of, trains


class GradientExchanges:
    """The exchanges of a model of DDP or paddle's DataParallel, which ``timer`` takes as waits."""

    def __init__(self, timer: StepTimer, model: Any) -> None:
        self.model = weakref.ref(model)
        self._timer, self._events = timer, timer.events
        self._groups: Any = getattr(model, "group_indices", ())
        self._is_torch = hasattr(model, "require_backward_grad_sync")
        if self._is_torch:
            self._queue: Any = sys.modules["torch"].autograd.Variable._execution_engine.queue_callback
        self._synchronizes = False
        self._order: list[int] = []
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

    def begin(self, model: Any) -> None:
        """Note whether the pass that comes exchanges gradients; replace the hooks of the first pass."""
        if self._order:
            self._settle()
        self._synchronizes = model.require_backward_grad_sync if self._is_torch else model.grad_need_sync

    def _learn(self, number: int, _: object) -> None:
        self._order.append(number)

    def _settle(self) -> None:
        for hook in self._hooks:
            hook.remove()
        numbers, self._order = list(dict.fromkeys(self._order)), []
        places, end = {number: place for place, number in enumerate(numbers)}, len(numbers) - 1
        last = {max((places[n] for n in group if n in places), default=end) for group in self._groups}
        for place in sorted(last - {end}):
            self._parameters[numbers[place]].register_hook(self._waits)
            self._parameters[numbers[place + 1]].register_hook(self._goes_on)
        self._parameters[numbers[end]].register_hook(self._ends)
        self._parameters = []

    def _waits(self, _: object) -> None:
        self._since = time.perf_counter_ns() if self._synchronizes else 0

    def _goes_on(self, _: object) -> None:
        if self._since:
            self._events.append((self._timer.waited, self._since, time.perf_counter_ns()))

    def _ends(self, _: object) -> None:
        if self._synchronizes and self._is_torch:
            # DDP queues its own once it has begun the exchange of this gradient
            self._queue(self._compute)
        elif self._synchronizes:
            self._compute()

    def _compute(self) -> None:
        self._events.append((self._timer.computes, time.perf_counter_ns()))
