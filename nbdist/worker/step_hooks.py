"""The calls of torch and paddle that ``step_time`` times, and the facts of a training that they show.

A stand-in has the file, line and name of its function, for tracebacks and stacks; torch.compile sees the
function itself. An error in a hook, which reads objects of the program, never reaches the program.
"""

from __future__ import annotations

import _thread
import functools
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

from nbdist.worker.framework_hooks import after_import
from nbdist.worker.gradient_exchanges import GradientExchanges
from nbdist.worker.step_time import NAME, StepRecord, StepTimer
from nbdist.worker.training_facts import LONGEST, TrainingNotes, count

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

    Hooks come in pairs around a call: ``begin_`` gets the time, and returns whether the call counts.
    """

    def __init__(self, path: str) -> None:
        self.timer = StepTimer(_clock())
        self.notes = TrainingNotes(self.timer)
        self.record = StepRecord(path, self.timer, self._facts)
        self.pid = os.getpid()
        self._main = _thread.get_ident()
        self._optimizer: Callable[[], Any] = lambda: None
        self._schedules: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._models: dict[int, GradientExchanges] = {}
        self._learning: list[GradientExchanges] = []

    def waits(self, name: str = "wait") -> tuple[Any, Any]:
        """Return the hooks of a collective."""
        return functools.partial(self.begin_wait, name), self.end_wait

    def begin_wait(self, name: str, _: int, given: Given, named: Named) -> bool:
        if self.timer.busy or _thread.get_ident() != self._main:
            return False
        self.notes.tells(name, given or (*named.values(), None))
        if named and (named.get("async_op") or not named.get("sync_op", True)):
            return False
        self.timer.busy = True
        return True

    def end_wait(self, begun: int, *_: Any) -> None:
        self.timer.busy = False
        self.timer.waited(begun, _clock())

    def begin_open(self, *_: Any) -> bool:
        timer = self.timer
        return not (timer.busy or timer.back or _thread.get_ident() != self._main)

    def end_open(self, begun: int, given: Given, iterator: Any) -> None:
        self.timer.opened(iterator, begun, _clock())
        self.notes.opens(iterator, given[0])

    def begin_fetch(self, *_: Any) -> bool:
        timer = self.timer
        if timer.busy or timer.back or _thread.get_ident() != self._main:
            return False
        timer.busy = True
        return True

    def end_fetch(self, begun: int, given: Given, batch: Any) -> None:
        samples, iterator, self.timer.busy = None, given[0], False
        if batch is not None:
            # a first tensor with more rows has no row for each sample
            most = self.notes.loader(id(iterator)).get("loader_batch")
            samples = min(_samples(batch), most or sys.maxsize)
        self.timer.fetched(iterator, begun, _clock(), samples)
        self.notes.reads(iterator, samples)

    def begin_call(self, now: int, given: Given, named: Named) -> bool:
        """Take the call of a wrapped model."""
        timer, model = self.timer, given[0]
        if timer.busy or timer.back or _thread.get_ident() != self._main:
            return False
        samples = _samples(given[1:] or named) if self.notes.looks or not timer.pending else 0
        timer.called(now)
        if not timer.pending:  # there is no DataLoader
            timer.pending[0] = 0, samples
        exchanges = self._models.get(id(model))
        if exchanges is None or exchanges.model() is not model:
            exchanges = self._models[id(model)] = GradientExchanges(timer, model)
            self._learning.append(exchanges)
        self.notes.calls(exchanges.model, samples)
        exchanges.begin(model)
        return False

    def begin_backward(self, now: int, *_: Any) -> bool:
        timer = self.timer
        if timer.busy or timer.back or _thread.get_ident() != self._main:
            return False
        timer.begins_back(now)
        return True

    def end_backward(self, *_: Any) -> None:
        self.timer.went_back(_clock())

    def begin_step(self, now: int, given: Given, _: Named) -> bool:
        return _thread.get_ident() == self._main and self.timer.enters(given[0], now)

    def end_step(self, _: int, given: Given, __: Any) -> None:
        if self.timer.leaves(_clock()):
            self._begin(given[0])
        if self._learning:
            self._learning = [exchanges for exchanges in self._learning if not exchanges.settle()]
        if self._optimizer() is given[0]:
            self.notes.steps(_learning_rate(given[0]))

    def note_schedule(self, _: int, given: Given, named: Named) -> bool:
        self._schedules[named.get("optimizer") or given[1]] = type(given[0]).__name__[:LONGEST]
        return False

    def _begin(self, optimizer: Any) -> None:
        """Note the facts of a training at its first step."""
        self._optimizer = weakref.ref(optimizer)
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
        }
        self.notes.begins(known)
        self._facts()

    def _facts(self) -> dict[str, Any]:
        """Return the facts as they are now; the listener's thread asks."""
        optimizer, facts = self._optimizer(), self.notes.facts
        if optimizer is not None:  # else those that were known last
            facts["lr"] = _learning_rate(optimizer)
            rate = getattr(optimizer, "_learning_rate", None)
            is_schedule = hasattr(rate, "last_lr")
            facts["schedule"] = type(rate).__name__ if is_schedule else self._schedules.get(optimizer)
        facts.update(self.notes.loader(self.timer.trained))
        return dict(facts)


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
    rate = getattr(rate, "last_lr", rate)
    # reading a tensor may wait for a GPU
    return float(rate) if isinstance(rate, (int, float)) else None


def _samples(value: Any, depth: int = 0) -> int:
    """Return the first dimension of the first tensor in a batch; 0 where there is none."""
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
    global _steps
    directory = os.environ.get("NBDIST_RANK_DIR")
    if directory is None:
        return
    _steps = _steps or _Steps(os.path.join(directory, NAME))
    for name, action in (_TORCH if library.__name__ == "torch" else _PADDLE).items():
        after_import(name, functools.partial(action, _steps))


def write() -> None:
    """Write the record of this rank's steps, if it trains."""
    if _steps is not None and os.getpid() == _steps.pid:
        with suppress(Exception):  # the facts are read from objects of the program
            _steps.record.write(time.monotonic())


def pause() -> None:
    """Begin a step now: a cell of a session is executed."""
    if _steps is not None:
        _steps.timer.pause(_clock())


def _now() -> int:
    # torch.compile warns about a builtin that it does not know; this module it passes over
    return _clock()


def _stand_in(
    real: Any, begin: Callable[[int, Given, Named], bool], end: Callable[[int, Given, Any], None] | None
) -> Any:
    def call(*given: Any, **named: Any) -> Any:
        begun, counts, result = _now(), False, None
        # torch.compile would look into contextlib.suppress
        try:  # noqa: SIM105
            counts = begin(begun, given, named)
        except Exception:  # noqa: BLE001
            pass
        try:
            result = real(*given, **named)
            return result
        finally:
            if counts and end is not None:
                try:  # noqa: SIM105
                    end(begun, given, result)
                except Exception:  # noqa: BLE001
                    pass

    with suppress(AttributeError, TypeError):
        functools.update_wrapper(call, real)
    if (code := getattr(real, "__code__", None)) is not None:
        call.__code__ = call.__code__.replace(
            co_filename=code.co_filename, co_firstlineno=code.co_firstlineno, co_name=code.co_name
        )
    return call


def _replace(owner: Any, name: str, begin: Any, end: Any = None, *, also: Any = None) -> None:
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
