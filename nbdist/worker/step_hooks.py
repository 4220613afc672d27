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
from nbdist.worker.paddle_exchanges import PaddleExchanges
from nbdist.worker.step_time import NAME, StepRecord, StepTimer

_clock = time.perf_counter_ns
_DEEPEST = 4
_LONGEST = 40  # characters of a name
_MOST_LOADERS = 16

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

    Hooks come in pairs around a call: ``begin_`` returns its time, 0 for a call that does not count.
    """

    def __init__(self, path: str) -> None:
        self.timer = StepTimer(_clock())
        self.record = StepRecord(path, self.timer, self._facts)
        self.pid = os.getpid()
        self._main = _thread.get_ident()
        self._optimizer: Callable[[], Any] = lambda: None
        self._known: dict[str, Any] = {}
        self._loaders: dict[int, dict[str, Any]] = {}  # facts by iterator
        self._schedules: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        # whether ranks exchange gradients on their CPUs: with a GPU, the main thread waits for its work, too
        self._exchanges = self._is_ddp = False
        self._of_models: weakref.WeakKeyDictionary[Any, PaddleExchanges] = weakref.WeakKeyDictionary()
        self._learning: list[PaddleExchanges] = []
        self._hook: Any = None

    def begin_wait(self, _: Given, named: Named) -> int:
        is_async = named and (named.get("async_op") or not named.get("sync_op", True))
        if is_async or self.timer.busy or _thread.get_ident() != self._main:
            return 0
        self.timer.busy = True
        return _clock()

    def end_wait(self, begun: int, *_: Any) -> None:
        self.timer.busy = False
        self.timer.waited(begun, _clock())

    def begin_open(self, *_: Any) -> int:
        timer = self.timer
        return 0 if timer.busy or timer.back or _thread.get_ident() != self._main else _clock()

    def end_open(self, begun: int, given: Given, iterator: Any) -> None:
        self.timer.opened(iterator, begun, _clock())
        if len(self._loaders) >= _MOST_LOADERS:
            del self._loaders[next(iter(self._loaders))]
        self._loaders[id(iterator)] = _loader_facts(given[0])

    def begin_fetch(self, *_: Any) -> int:
        timer = self.timer
        if timer.busy or timer.back or _thread.get_ident() != self._main:
            return 0
        timer.busy = True
        return _clock()

    def end_fetch(self, begun: int, given: Given, batch: Any) -> None:
        samples, iterator, self.timer.busy = None, given[0], False
        if batch is not None:
            # a first tensor with more rows has no row for each sample
            most = self._loaders.get(id(iterator), {}).get("loader_batch")
            samples = min(_samples(batch), most or sys.maxsize)
        self.timer.fetched(iterator, begun, _clock(), samples)

    def begin_call(self, given: Given, _: Named) -> int:
        """Take the call of a wrapped model."""
        timer = self.timer
        if timer.busy or timer.back or _thread.get_ident() != self._main:
            return 0
        timer.called(_clock())
        if not timer.pending:  # there is no DataLoader
            timer.pending[0] = 0, _samples(given[1:])
        if hasattr(model := given[0], "group_indices"):
            if model not in self._of_models:
                self._of_models[model] = PaddleExchanges(self.timer, model)
                self._learning.append(self._of_models[model])
            self._of_models[model].synchronizes = self._exchanges and model.grad_need_sync
        return 0

    def begin_backward(self, given: Given, _: Named) -> int:
        timer = self.timer
        if timer.busy or timer.back or _thread.get_ident() != self._main:
            return 0
        timer.begins_back(begun := _clock())
        if self._is_ddp and given:
            self._time_exchange(given[0])
        return begun

    def _time_exchange(self, outputs: Any) -> None:
        """Time the exchange of DDP, which waits for it in a callback at the end of the pass: one that is
        queued at the beginning comes first."""
        # compiled hooks would have to be the same at each pass
        compiler = sys.modules.get("torch._dynamo.compiled_autograd")
        if not getattr(compiler, "compiled_autograd_enabled", False):
            output = outputs if hasattr(outputs, "grad_fn") else next(iter(outputs), None)
            if (node := getattr(output, "grad_fn", None)) is not None:
                self._hook = node.register_prehook(self._queue)

    def _queue(self, _: object) -> None:
        sys.modules["torch"].autograd.Variable._execution_engine.queue_callback(self._compute)

    def _compute(self) -> None:
        self.timer.computed = _clock()

    def end_backward(self, *_: Any) -> None:
        self.timer.went_back(_clock())
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def begin_step(self, given: Given, _: Named) -> int:
        begun = _clock()
        return begun if _thread.get_ident() == self._main and self.timer.enters(given[0], begun) else 0

    def end_step(self, _: int, given: Given, __: Any) -> None:
        if self.timer.leaves(_clock()):
            self._begin(given[0])
        if self._learning:
            self._learning = [exchanges for exchanges in self._learning if not exchanges.settle()]

    def note_schedule(self, given: Given, named: Named) -> int:
        self._schedules[named.get("optimizer") or given[1]] = type(given[0]).__name__[:_LONGEST]
        return 0

    def _begin(self, optimizer: Any) -> None:
        """Note the facts of a training at its first step."""
        self._optimizer = weakref.ref(optimizer)
        parameters = [parameter for parameter in parameters_of(optimizer) if _trains(parameter)]
        sizes = [(_count(parameter.shape), int(parameter.element_size())) for parameter in parameters]
        framework = "torch" if hasattr(optimizer, "param_groups") else "paddle"
        device = _device(parameters[0]) if parameters else ""
        self._exchanges = device == "cpu" and _has_joined(framework)
        self._is_ddp = self._exchanges and framework == "torch"
        self._known = {
            "framework": framework,
            "device": device,
            "optimizer": type(optimizer).__name__[:_LONGEST],
            "parameters": sum(count for count, _ in sizes),
            "gradient_bytes": sum(count * size for count, size in sizes),
            "lr_first": _learning_rate(optimizer),
        }

    def _facts(self) -> dict[str, Any]:
        """Return the facts as they are now; the listener's thread asks."""
        optimizer, facts = self._optimizer(), self._known | self._loaders.get(self.timer.trained, {})
        if optimizer is not None:
            facts["lr"] = _learning_rate(optimizer)
            rate = getattr(optimizer, "_learning_rate", None)
            is_schedule = hasattr(rate, "last_lr")
            facts["schedule"] = type(rate).__name__ if is_schedule else self._schedules.get(optimizer)
        return facts


def parameters_of(optimizer: Any) -> Iterator[Any]:
    groups = optimizer.param_groups if hasattr(optimizer, "param_groups") else optimizer._parameter_list
    for group in groups or ():
        yield from group["params"] if isinstance(group, dict) else (group,)


def _trains(parameter: Any) -> bool:
    return bool(getattr(parameter, "requires_grad", not getattr(parameter, "stop_gradient", False)))


def _count(shape: Any) -> int:
    return functools.reduce(lambda count, size: count * int(size), shape, 1)


def _device(parameter: Any) -> str:
    """Return ``cpu``, ``cuda``, ``gpu``, …"""
    if hasattr(parameter, "place"):
        return str(parameter.place).rpartition("(")[2].rstrip(")").partition(":")[0]
    return str(parameter.device.type)


def _has_joined(framework: str) -> bool:
    """Return whether this process is in a process group."""
    distributed: Any = sys.modules.get(f"{framework}.distributed")
    return bool(distributed is not None and distributed.is_available() and distributed.is_initialized())


def _learning_rate(optimizer: Any) -> float | None:
    groups = getattr(optimizer, "param_groups", None)
    rate = groups[0].get("lr") if groups else getattr(optimizer, "_learning_rate", None)
    rate = getattr(rate, "last_lr", rate)
    # reading a tensor may wait for a GPU
    return float(rate) if isinstance(rate, (int, float)) else None


def _loader_facts(loader: Any) -> dict[str, Any]:
    """Return the facts of a DataLoader."""
    # len(loader) would make torch warn about an IterableDataset that has more
    batches: Any = getattr(loader, "batch_sampler", None)
    size = getattr(loader, "batch_size", None) or getattr(batches, "batch_size", None)
    # paddle's DistributedBatchSampler divides the data itself
    divides = hasattr(batches, "num_samples") and hasattr(batches, "nranks")
    return {
        "workers": loader.num_workers,
        "loader_batch": size if isinstance(size, int) else None,
        "loader_batches": _length(batches),
        "dataset": _length(getattr(loader, "dataset", None)),
        "shard": int(batches.num_samples) if divides else _length(getattr(batches, "sampler", None)),
    }


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except (TypeError, AttributeError, NotImplementedError, RuntimeError):
        return None


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


def _stand_in(
    real: Any, begin: Callable[[Given, Named], int], end: Callable[[int, Given, Any], None] | None
) -> Any:
    def call(*given: Any, **named: Any) -> Any:
        result = None
        try:
            begun = begin(given, named)
        except Exception:  # noqa: BLE001
            begun = 0
        try:
            result = real(*given, **named)
            return result
        finally:
            if begun and end is not None:
                try:  # noqa: SIM105 - torch.compile would look into contextlib.suppress
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
        _replace(module, name, steps.begin_wait, steps.end_wait, also=package)
    _replace(package, "_broadcast_coalesced", steps.begin_wait, steps.end_wait)
    if (work := getattr(module, "Work", None)) is not None:
        _replace(work, "wait", steps.begin_wait, steps.end_wait)


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
        _replace(module.task, "wait", steps.begin_wait, steps.end_wait)


def _paddle_collectives(steps: _Steps, module: Any) -> None:
    for name in _COLLECTIVES:
        _replace(module.communication.stream, name, steps.begin_wait, steps.end_wait)
    for name in ("barrier", "wait"):
        _replace(module, name, steps.begin_wait, steps.end_wait)


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
