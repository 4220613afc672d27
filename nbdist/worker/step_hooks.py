"""The calls of torch and paddle that ``step_time`` times, and the facts of a training that they show.

A stand-in has the file, line and name of its function, for tracebacks and stacks; torch.compile sees the
function itself. An error in a hook, which reads objects of the program, never reaches the program.
"""

from __future__ import annotations

import functools
import os
import sys
import time
import weakref
from _thread import allocate_lock, get_ident
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

from nbdist.worker import profiler
from nbdist.worker.framework_hooks import after_import
from nbdist.worker.gradient_exchanges import GradientExchanges
from nbdist.worker.step_time import NAME, StepRecord, StepTimer
from nbdist.worker.training_facts import LONGEST, SILENT, TrainingNotes, count, loader_facts, model_facts

_clock = time.perf_counter_ns
_DEEPEST = 4

_COLLECTIVES = (
    *("all_gather", "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce"),
    *("all_reduce_coalesced", "all_to_all", "all_to_all_single", "alltoall", "alltoall_single", "barrier"),
    *("broadcast", "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "recv"),
    *("recv_object_list", "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor"),
    *("scatter", "scatter_object_list", "send", "send_object_list", "wait"),
)
_SCHEDULES = ("LRScheduler", "_LRScheduler", "ReduceLROnPlateau", "SequentialLR", "ChainedScheduler")

Given = tuple[Any, ...]
Named = dict[str, Any]


class _Steps:
    """The training of this process: its timer, its record, and what its facts are read from.

    Hooks come in pairs around a call: ``begin_`` returns the time, or 0 where the call does not count. They
    run among a program's own work, each with cold caches, so they only note events, which ``take`` gives to
    the timer and to the notes in the thread that writes the record. ``busy``: a call but backward or an
    optimizer's step is going on, and those within it do not count.
    """

    def __init__(self, path: str) -> None:
        self.timer = timer = StepTimer(_clock())
        self.notes = TrainingNotes(timer)
        self.record = StepRecord(path, timer, self._facts)
        self.pid = os.getpid()
        self.writes = allocate_lock()
        self.on_open = self.on_batch = _ignore
        self._events = timer.events
        self._went_back, self._enters, self._begins_back = timer.went_back, timer.enters, timer.begins_back
        self._main = get_ident()
        self._owner = 0
        self._optimizer = self._latest = _ignore
        self._known: dict[int, tuple[Callable[[], Any], dict[str, Any]]] = {}  # of optimizers
        self._schedules: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._model = _ignore
        self._exchanges: Any = None
        self._models: dict[int, GradientExchanges] = {}
        self._learning: list[GradientExchanges] = []
        self.begin()
        os.register_at_fork(after_in_child=self._leave)

    def begin(self) -> None:
        """Begin a step: no call goes on."""
        self._busy = self._back = self._stepping = self._has_batch = False
        self._events.append((self.timer.pause, _clock()))

    def _leave(self) -> None:
        self._main = 0  # no thread adds up the events of a forked process

    def take(self) -> None:
        """Give the events to the timer and the notes."""
        while self._events:
            with suppress(Exception):  # the facts are read from objects of the program
                while self._events:
                    event = self._events.popleft()
                    event[0](*event[1:])

    def waits(self, name: str = "wait") -> tuple[Any, Any]:
        """Return the hooks of a collective."""
        return functools.partial(self.begin_wait, name), self.end_wait

    def begin_wait(self, name: str, given: Given, named: Named) -> int:
        if self._busy or get_ident() != self._main:
            return 0
        if name not in SILENT:
            shape = getattr((given or (*named.values(), None))[0], "shape", ())
            self._events.append((self.notes.tells, name, shape, self._back))
        if named and (named.get("async_op") or not named.get("sync_op", True)):
            return 0
        self._busy = True
        return _clock()

    def end_wait(self, begun: int, *_: Any) -> None:
        self._busy = False
        self._events.append((self.timer.waited, begun, _clock()))

    def begin_open(self, *_: Any) -> int:
        counts = not (self._busy or self._back or get_ident() != self._main)
        return _clock() if counts else 0

    def end_open(self, begun: int, given: Given, iterator: Any) -> None:
        self._events.append((self.timer.opened, id(iterator), begun, _clock()))
        self._events.append((self.notes.opens, id(iterator), loader_facts(given[0])))
        self.on_open(given[0], iterator)

    def begin_fetch(self, *_: Any) -> int:
        if self._busy or self._back or get_ident() != self._main:
            return 0
        self._busy = True
        return _clock()

    def end_fetch(self, begun: int, given: Given, batch: Any) -> None:
        now, self._busy, iterator = _clock(), False, given[0]
        samples = None if batch is None else _samples(batch)
        self._events.append((self._fetched, id(iterator), begun, now, samples))
        if batch is not None:
            self._has_batch = True
            self.on_batch(iterator, batch)

    def _fetched(self, iterator: int, begun: int, now: int, samples: int | None) -> None:
        if samples is not None:
            # a first tensor with more rows has no row for each sample
            samples = min(samples, self.notes.loader(iterator).get("loader_batch") or sys.maxsize)
        self.timer.fetched(iterator, begun, now, samples)
        self.notes.reads(iterator, samples)

    def begin_call(self, given: Given, named: Named) -> int:
        """Take the call of a wrapped model."""
        if self._busy or self._back or get_ident() != self._main:
            return 0
        model = given[0]
        if self._model() is not model:
            self._exchanges = self._models.get(id(model))
            if self._exchanges is None or self._exchanges.model() is not model:
                self._exchanges = self._models[id(model)] = GradientExchanges(self.timer, model)
                self._learning.append(self._exchanges)
            self._model = self._exchanges.model
        self._exchanges.begin(model)
        samples = _samples(given[1:] or named) if self.notes.looks or not self._has_batch else 0
        self._events.append((self._called, _clock(), samples))
        return 0

    def _called(self, now: int, samples: int) -> None:
        self.timer.called(now)
        if not self.timer.pending:  # there is no DataLoader
            self.timer.pending[0] = 0, samples
        self.notes.calls(samples)

    def begin_backward(self, *_: Any) -> int:
        if self._busy or self._back or get_ident() != self._main:
            return 0
        self._back = True
        now = _clock()
        self._events.append((self._begins_back, now))
        return now

    def end_backward(self, *_: Any) -> None:
        self._back = self._has_batch = False
        self._events.append((self._went_back, _clock()))

    def begin_step(self, given: Given, _: Named) -> int:
        if self._stepping or get_ident() != self._main:
            return 0
        self._stepping = True
        now = _clock()
        self._events.append((self._enters, id(given[0]), now))
        return now

    def end_step(self, _: int, given: Given, __: Any) -> None:
        now, self._stepping, optimizer = _clock(), False, given[0]
        if self._learning:
            self._learning = [exchanges for exchanges in self._learning if not exchanges.settle()]
        if self._latest() is not optimizer:
            self._meet(optimizer)
        self._events.append((self._left, now, id(optimizer), _learning_rate(optimizer)))
        profiler.step_ended(id(optimizer))

    def _meet(self, optimizer: Any) -> None:
        """Note the facts of an optimizer, whose process group may go before the record is written."""
        with suppress(Exception):  # an optimizer may be of any kind
            self._latest = weakref.ref(optimizer)
            known = self._known.get(id(optimizer))
            if known is None or known[0] is not self._latest:
                self._known[id(optimizer)] = self._latest, self._facts_of(optimizer)

    def _left(self, now: int, optimizer: int, rate: float | None) -> None:
        if self.timer.leaves(now):
            self._owner = optimizer
            self._optimizer, facts = self._known[optimizer]
            self.notes.begins(dict(facts))
        if self._owner == optimizer:
            self.notes.steps(rate)

    def note_schedule(self, given: Given, named: Named) -> int:
        self._schedules[named.get("optimizer") or given[1]] = type(given[0]).__name__[:LONGEST]
        return 0

    def _facts_of(self, optimizer: Any) -> dict[str, Any]:
        """Return the facts of a training at its first step."""
        parameters = [parameter for parameter in parameters_of(optimizer) if _trains(parameter)]
        sizes = [(count(parameter.shape), int(parameter.element_size())) for parameter in parameters]
        framework = "torch" if hasattr(optimizer, "param_groups") else "paddle"
        device = _device(parameters[0]) if parameters else ""
        known: dict[str, Any] = {
            "framework": framework,
            "device": device,
            "optimizer": type(optimizer).__name__[:LONGEST],
            "parameters": sum(count for count, _ in sizes),
            "gradient_bytes": sum(count * size for count, size in sizes),
            "lr_first": _learning_rate(optimizer),
            "schedule": self._schedule_of(optimizer),
        }
        return known | model_facts(self._model())

    def _schedule_of(self, optimizer: Any) -> str | None:
        rate = getattr(optimizer, "_learning_rate", None)
        return type(rate).__name__ if hasattr(rate, "last_lr") else self._schedules.get(optimizer)

    def _facts(self) -> dict[str, Any]:
        """Return the facts as they are now; the listener's thread asks."""
        optimizer, facts = self._optimizer(), self.notes.facts
        if optimizer is not None:  # else those that were known last
            facts |= {"lr": _learning_rate(optimizer), "schedule": self._schedule_of(optimizer)}
        facts.update(self.notes.loader(self.timer.trained))
        return dict(facts)


def _ignore(*_: Any) -> Any:
    return None


def parameters_of(optimizer: Any) -> Iterator[Any]:
    groups = optimizer.param_groups if hasattr(optimizer, "param_groups") else optimizer._parameter_list
    for group in groups or ():
        yield from group["params"] if isinstance(group, dict) else (group,)


def _trains(parameter: Any) -> bool:
    return bool(getattr(parameter, "requires_grad", not getattr(parameter, "stop_gradient", False)))


def _device(parameter: Any) -> str:
    """Return ``cpu``, ``cuda``, ``gpu``, …"""
    if hasattr(parameter, "place"):
        return str(parameter.place).rpartition("(")[2].rstrip(")").partition(":")[0]
    return str(parameter.device.type)


def _learning_rate(optimizer: Any) -> float | None:
    groups = getattr(optimizer, "param_groups", None)
    rate = groups[0].get("lr") if groups else getattr(optimizer, "_learning_rate", None)
    if type(rate) is float:
        return rate
    rate = getattr(rate, "last_lr", rate)
    # reading a tensor may wait for a GPU
    return float(rate) if isinstance(rate, (int, float)) else None


def _samples(value: Any, depth: int = 0) -> int:
    """Return the first dimension of the first tensor in a batch; 0 where there is none."""
    if type(value) in (list, tuple) and value and (shape := getattr(value[0], "shape", None)):
        return int(shape[0])
    if (shape := getattr(value, "shape", None)) is not None:
        return int(shape[0]) if len(shape) else 1
    if depth < _DEEPEST:
        parts = value.values() if hasattr(value, "values") else value
        for part in parts if isinstance(parts, (list, tuple)) or parts is not value else ():
            if count := _samples(part, depth + 1):
                return count
    return 0


_steps: _Steps | None = None


def watch(library: ModuleType) -> None:
    """Time this rank's training by torch or paddle, once that is imported."""
    if (steps := steps_here()) is not None:
        for name, action in (_TORCH if library.__name__ == "torch" else _PADDLE).items():
            after_import(name, functools.partial(action, steps))


def steps_here() -> _Steps | None:
    """Return the training of this process; None where it is no rank."""
    global _steps
    directory = os.environ.get("NBDIST_RANK_DIR")
    if _steps is None and directory is not None:
        _steps = _Steps(os.path.join(directory, NAME))
    return _steps


def write() -> None:
    """Write the record of this rank's steps, if it trains."""
    if _steps is not None and os.getpid() == _steps.pid:
        with _steps.writes, suppress(Exception):  # the facts are read from objects of the program
            _steps.take()
            _steps.record.write(time.monotonic())


def pause() -> None:
    """Begin a step now: a cell of a session is executed."""
    if _steps is not None:
        _steps.begin()


def _stand_in(
    real_call: Any, begin: Callable[[Given, Named], int], end: Callable[[int, Given, Any], None]
) -> Any:
    def call(*given: Any, **named: Any) -> Any:
        begun, result = 0, None
        # torch.compile would look into contextlib.suppress
        try:  # noqa: SIM105
            begun = begin(given, named)
        except Exception:  # noqa: BLE001
            pass
        try:
            result = real_call(*given, **named)
            return result
        finally:
            if begun:
                try:  # noqa: SIM105
                    end(begun, given, result)
                except Exception:  # noqa: BLE001
                    pass

    with suppress(AttributeError, TypeError):
        functools.update_wrapper(call, real_call)
    if (code := getattr(real_call, "__code__", None)) is not None:
        call.__code__ = call.__code__.replace(
            co_filename=code.co_filename, co_firstlineno=code.co_firstlineno, co_name=code.co_name
        )
    return call


def _replace(owner: Any, name: str, begin: Any, end: Any = _ignore, *, also: Any = None) -> None:
    """Put a stand-in in the place of a function, ``also`` in a module that has imported it by name."""
    real: Any = vars(owner).get(name)
    if callable(real):
        call = _stand_in(real, begin, end)
        setattr(owner, name, call)
        if also is not None and vars(also).get(name) is real:
            setattr(also, name, call)


def _torch_backward(steps: _Steps, module: ModuleType) -> None:
    for name in ("backward", "grad"):
        _replace(module, name, steps.begin_backward, steps.end_backward)


def _torch_collectives(steps: _Steps, package: Any) -> None:
    module: Any = sys.modules.get("torch.distributed.distributed_c10d", package)
    for name in _COLLECTIVES:
        _replace(module, name, *steps.waits(name), also=package)
    _replace(package, "_broadcast_coalesced", *steps.waits())
    if (work := getattr(module, "Work", None)) is not None:
        _replace(work, "wait", *steps.waits())


def _torch_optimizers(steps: _Steps, module: Any) -> None:
    # outside of it is torch's profiler, whose frame takes 0.1 ms of a step
    wrap: Any = getattr(module.Optimizer, "profile_hook_step", None)
    if wrap is not None:
        module.Optimizer.profile_hook_step = staticmethod(
            lambda function: _stand_in(wrap(function), steps.begin_step, steps.end_step)
        )


def _torch_schedules(steps: _Steps, module: ModuleType) -> None:
    for kind in dict.fromkeys(getattr(module, name) for name in _SCHEDULES if hasattr(module, name)):
        _replace(kind, "__init__", steps.note_schedule)


def _torch_loaders(steps: _Steps, module: Any) -> None:
    _replace(module._BaseDataLoaderIter, "__next__", steps.begin_fetch, steps.end_fetch)
    _replace(module.DataLoader, "__iter__", steps.begin_open, steps.end_open)


def _paddle_core(steps: _Steps, module: Any) -> None:
    _replace(module.eager, "run_backward", steps.begin_backward, steps.end_backward)
    if hasattr(module, "task"):
        _replace(module.task, "wait", *steps.waits())


def _paddle_collectives(steps: _Steps, module: Any) -> None:
    for name in _COLLECTIVES:
        _replace(module.communication.stream, name, *steps.waits(name))
    for name in ("barrier", "wait"):
        _replace(module, name, *steps.waits())


def _paddle_loaders(steps: _Steps, module: Any) -> None:
    for name in ("_DataLoaderIterSingleProcess", "_DataLoaderIterMultiProcess"):
        _replace(getattr(module, name), "__next__", steps.begin_fetch, steps.end_fetch)


def _paddle_optimizers(steps: _Steps, module: ModuleType) -> None:
    for kind in vars(module).values():
        if isinstance(kind, type) and hasattr(kind, "_apply_optimize"):
            for name in ("step", "_apply_optimize"):
                _replace(kind, name, steps.begin_step, steps.end_step)


_TORCH: dict[str, Callable[[_Steps, Any], None]] = {
    "torch._dynamo.trace_rules": lambda _, module: module.add("nbdist"),
    "torch.autograd": _torch_backward,
    "torch.distributed": _torch_collectives,
    "torch.nn.parallel.distributed": lambda steps, module: _replace(
        module.DistributedDataParallel, "forward", steps.begin_call
    ),
    "torch.optim.lr_scheduler": _torch_schedules,
    "torch.optim.optimizer": _torch_optimizers,
    "torch.utils.data.dataloader": _torch_loaders,
}
_PADDLE: dict[str, Callable[[_Steps, Any], None]] = {
    "paddle.base.core": _paddle_core,
    "paddle.distributed": _paddle_collectives,
    "paddle.distributed.parallel": lambda steps, module: _replace(
        module.DataParallel, "forward", steps.begin_call
    ),
    "paddle.io.dataloader.dataloader_iter": _paddle_loaders,
    "paddle.io.reader": lambda steps, module: _replace(
        module.DataLoader, "__iter__", steps.begin_open, steps.end_open
    ),
    "paddle.optimizer": _paddle_optimizers,
}
