"""The calls of torch and paddle that ``step_time`` times, and the facts of a training that they show.

The stand-ins have the file, line and name of the functions: for tracebacks, stacks, and torch.compile.
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
    *("scatter", "scatter_object_list", "send", "send_object_list", "wait", "_broadcast_coalesced"),
)
Begin = Callable[[tuple[Any, ...], dict[str, Any]], int]
End = Callable[[int], None]
Make = Callable[[Any], Any]

_SCHEDULES = ("LRScheduler", "_LRScheduler", "ReduceLROnPlateau", "SequentialLR", "ChainedScheduler")


class _Steps:
    """The training of this process: its timer, its record, and what its facts are read from."""

    def __init__(self, path: str) -> None:
        self.timer = StepTimer(_clock())
        self.record = StepRecord(path, self.timer, self._facts)
        self.main, self.pid = _thread.get_ident(), os.getpid()
        self._optimizer: Callable[[], Any] = lambda: None
        self._loaders: dict[int, tuple[Callable[[], Any], int]] = {}  # by iterator, with the size of a batch
        self._known: dict[str, Any] = {}
        self._exchanges: weakref.WeakKeyDictionary[Any, PaddleExchanges] = weakref.WeakKeyDictionary()
        self._learning: list[PaddleExchanges] = []
        self.on_host = False
        self.schedules: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def applies(self, *, in_backward: bool = False) -> bool:
        """Return whether a call counts: the outermost one of the main thread."""
        timer = self.timer
        return not timer.busy and (in_backward or not timer.back) and _thread.get_ident() == self.main

    def exchanges(self, model: Any) -> None:
        """Watch the next pass of a model of paddle's DataParallel."""
        with suppress(Exception):  # private names
            if model not in self._exchanges:
                self._exchanges[model] = PaddleExchanges(self.timer, model)
                self._learning.append(self._exchanges[model])
            self._exchanges[model].synchronizes = self.timer.sleeps and model.grad_need_sync

    def opened(self, loader: Any, iterator: Any, begun: int) -> None:
        """Take a DataLoader that has started to read."""
        self.timer.opened(iterator, begun, _clock())
        if len(self._loaders) >= _MOST_LOADERS:
            del self._loaders[next(iter(self._loaders))]
        size = getattr(loader, "batch_size", None) or getattr(loader.batch_sampler, "batch_size", None)
        self._loaders[id(iterator)] = weakref.ref(loader), size if isinstance(size, int) else 0

    def fetched(self, iterator: Any, begun: int, batch: Any) -> None:
        now = _clock()
        samples, (_, most) = _samples(batch), self._loaders.get(id(iterator), (None, 0))
        self.timer.fetched(iterator, begun, now, min(samples, most) if most else samples)

    def enter(self, optimizer: Any, *_: Any) -> None:
        if _thread.get_ident() == self.main:
            self.timer.enters(optimizer, _clock())

    def leave(self, optimizer: Any, *_: Any) -> None:
        if _thread.get_ident() == self.main and self.timer.leaves(optimizer, _clock()):
            with suppress(Exception):  # an optimizer of the program's
                self._begin(optimizer)
        if self._learning:
            self._learning = [exchanges for exchanges in self._learning if not exchanges.settle()]

    def _begin(self, optimizer: Any) -> None:
        """Note the facts of a training at its first step."""
        parameters = [parameter for parameter in parameters_of(optimizer) if _trains(parameter)]
        sizes = [(_count(parameter.shape), int(parameter.element_size())) for parameter in parameters]
        framework = "torch" if hasattr(optimizer, "param_groups") else "paddle"
        device = _device(parameters[0]) if parameters else ""
        self._optimizer = weakref.ref(optimizer)
        self.on_host = device == "cpu"
        self.timer.sleeps = self.on_host and _joined(framework)
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
        optimizer, facts = self._optimizer(), dict(self._known)
        if optimizer is not None:
            facts["lr"] = _learning_rate(optimizer)
            rate = getattr(optimizer, "_learning_rate", None)
            name = type(rate).__name__ if hasattr(rate, "last_lr") else self.schedules.get(optimizer)
            facts["schedule"] = name and name[:_LONGEST]
        reference, size = self._loaders.get(self.timer.trained, (None, 0))
        if reference is not None and (loader := reference()) is not None:
            facts["workers"] = loader.num_workers
            facts["loader_batch"] = size or None
            facts["loader_batches"] = _length(loader)
            facts["dataset"] = _length(getattr(loader, "dataset", None))
            facts["shard"] = _length(_sampler(loader))
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


def _joined(framework: str) -> bool:
    """Return whether this process is in a process group."""
    distributed: Any = sys.modules.get(f"{framework}.distributed")
    return bool(distributed is not None and distributed.is_available() and distributed.is_initialized())


def _learning_rate(optimizer: Any) -> float | None:
    groups = getattr(optimizer, "param_groups", None)
    rate = groups[0].get("lr") if groups else getattr(optimizer, "_learning_rate", None)
    rate = getattr(rate, "last_lr", rate)
    # reading a tensor may wait for a GPU
    return float(rate) if isinstance(rate, (int, float)) else None


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except (TypeError, AttributeError, NotImplementedError, RuntimeError):
        return None


def _sampler(loader: Any) -> Any:
    batches: Any = getattr(loader, "batch_sampler", None)
    # paddle's DistributedBatchSampler divides the data itself
    if hasattr(batches, "num_samples") and hasattr(batches, "nranks"):
        return range(batches.num_samples)
    return getattr(batches, "sampler", None)


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


def write(now: float) -> None:
    """Write the record of this rank's steps, if it trains. ``now`` is monotonic seconds."""
    if _steps is not None and os.getpid() == _steps.pid:
        with suppress(Exception):  # the facts are read from objects of the program
            _steps.record.write(now)


def counts() -> bool:
    """Return whether this rank trains on its CPU, and its steps are recorded."""
    return _steps is not None and _steps.on_host and _steps.timer.counts


def pause() -> None:
    """Begin a step now: a cell of a session is executed."""
    if _steps is not None:
        _steps.timer.pause(_clock())


def _replace(owner: Any, name: str, make: Make) -> None:
    """Put ``make(function)`` in the place of a function, with the function's place in stacks."""
    real: Any = vars(owner).get(name)
    if real is None or not callable(real):
        return
    call = make(real)
    with suppress(AttributeError, TypeError):
        functools.update_wrapper(call, real)
    if (code := getattr(real, "__code__", None)) is not None:
        call.__code__ = call.__code__.replace(
            co_filename=code.co_filename, co_firstlineno=code.co_firstlineno, co_name=code.co_name
        )
    setattr(owner, name, call)


def _timed(begin: Begin, end: End) -> Make:
    """Return a maker of stand-ins: ``end`` gets what ``begin`` has returned for the arguments, unless 0."""

    def make(real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            begun = begin(given, named)
            if not begun:
                return real(*given, **named)
            try:
                return real(*given, **named)
            finally:
                end(begun)

        return call

    return make


def _waits(steps: _Steps) -> Make:
    timer = steps.timer

    def begin(_: Any, named: dict[str, Any]) -> int:
        is_async = named and (named.get("async_op") or not named.get("sync_op", True))
        if is_async or not steps.applies(in_backward=True):
            return 0
        timer.busy = True
        return _clock()

    def end(begun: int) -> None:
        timer.busy = False
        timer.waited(begun, _clock())

    return _timed(begin, end)


def _torch_backward_calls(steps: _Steps) -> Make:
    """Time torch's backward. DDP waits for the exchange of gradients in a callback at the end of the pass; a
    callback that is queued at its beginning comes first. It costs 10 µs: some short passes do without."""
    timer = steps.timer
    engine: Any = sys.modules["torch.autograd"].Variable._execution_engine

    def computed() -> None:
        timer.computed = _clock()

    def start(_: object) -> None:
        engine.queue_callback(computed)

    def watch_exchange(outputs: Any) -> Any:
        # compiled hooks would have to be the same at each pass
        compiler = sys.modules.get("torch._dynamo.compiled_autograd")
        if getattr(compiler, "compiled_autograd_enabled", False):
            return None
        try:
            output = outputs if hasattr(outputs, "grad_fn") else outputs[0]
            return output.grad_fn.register_prehook(start)
        except Exception:  # noqa: BLE001 - outputs of any kind
            return None

    def make(real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if not steps.applies():
                return real(*given, **named)
            begun = _clock()
            hook = watch_exchange(given[0]) if given and timer.measures() else None
            timer.begins_back(begun, measured=hook is not None)
            try:
                return real(*given, **named)
            finally:
                timer.went_back(_clock())
                if hook is not None:
                    hook.remove()

        return call

    return make


def _paddle_backward_calls(steps: _Steps) -> Make:
    timer = steps.timer

    def begin(*_: Any) -> int:
        if not steps.applies():
            return 0
        timer.begins_back(begun := _clock(), measured=True)
        return begun

    return _timed(begin, lambda _: timer.went_back(_clock()))


def _optimizes(steps: _Steps) -> Make:
    stepping = list[Any]()

    def begin(given: Any, _: Any) -> int:
        if stepping or _thread.get_ident() != steps.main:
            return 0
        stepping.append(given[0])
        steps.timer.enters(given[0], begun := _clock())
        return begun

    def end(_: int) -> None:
        steps.leave(stepping.pop())

    return _timed(begin, end)


def _calls(steps: _Steps) -> Make:
    def begin(given: Any, _: Any) -> int:
        if steps.applies():
            steps.timer.called(_clock(), _samples(given[1:]))
            if hasattr(given[0], "group_indices"):
                steps.exchanges(given[0])
        return 0

    return _timed(begin, lambda _: None)


def _schedules(steps: _Steps) -> Make:
    def begin(given: Any, named: dict[str, Any]) -> int:
        with suppress(Exception):  # a schedule of the program's
            steps.schedules[named.get("optimizer") or given[1]] = type(given[0]).__name__
        return 0

    return _timed(begin, lambda _: None)


def _batches(steps: _Steps) -> Make:
    timer = steps.timer

    def make(real: Any) -> Any:
        def call(self: Any) -> Any:
            if not steps.applies():
                return real(self)
            timer.busy, begun = True, _clock()
            try:
                batch = real(self)
            except StopIteration:
                timer.fetched(self, begun, _clock(), None)
                raise
            finally:
                timer.busy = False
            try:
                steps.fetched(self, begun, batch)
            except Exception:  # noqa: BLE001 - a batch of the program's
                return batch
            return batch

        return call

    return make


def _opens(steps: _Steps) -> Make:
    def make(real: Any) -> Any:
        def call(self: Any) -> Any:
            begun = _clock()
            iterator = real(self)
            if steps.applies():
                with suppress(Exception):  # a loader of the program's
                    steps.opened(self, iterator, begun)
            return iterator

        return call

    return make


def _torch_optimizers(steps: _Steps, module: ModuleType) -> None:
    if hasattr(module, "register_optimizer_step_post_hook"):
        module.register_optimizer_step_pre_hook(steps.enter)
        module.register_optimizer_step_post_hook(steps.leave)


def _torch_backward(steps: _Steps, module: ModuleType) -> None:
    _replace(module, "_engine_run_backward", _torch_backward_calls(steps))
    # imported by name
    autograd: Any = sys.modules.get("torch.autograd")
    if hasattr(autograd, "_engine_run_backward"):
        autograd._engine_run_backward = module._engine_run_backward
        # the usual way there
        _replace(autograd, "backward", _torch_backward_calls(steps))


def _torch_collectives(steps: _Steps, module: ModuleType) -> None:
    package: Any = sys.modules.get("torch.distributed")
    for name in _COLLECTIVES:
        before = getattr(module, name, None)
        _replace(module, name, _waits(steps))
        if before is not None and getattr(package, name, None) is before:
            setattr(package, name, getattr(module, name))
    if package is not None and not hasattr(module, "_broadcast_coalesced"):
        _replace(package, "_broadcast_coalesced", _waits(steps))
    if (work := getattr(module, "Work", None)) is not None:
        _replace(work, "wait", _waits(steps))


def _torch_schedules(steps: _Steps, module: ModuleType) -> None:
    for kind in dict.fromkeys(getattr(module, name) for name in _SCHEDULES if hasattr(module, name)):
        _replace(kind, "__init__", _schedules(steps))


def _torch_loaders(steps: _Steps, module: Any) -> None:
    _replace(module._BaseDataLoaderIter, "__next__", _batches(steps))
    _replace(module.DataLoader, "__iter__", _opens(steps))


def _paddle_core(steps: _Steps, module: Any) -> None:
    _replace(module.eager, "run_backward", _paddle_backward_calls(steps))
    if hasattr(module, "task"):
        _replace(module.task, "wait", _waits(steps))


def _paddle_collectives(steps: _Steps, module: Any) -> None:
    for owner in (module.communication.stream, module):
        for name in _COLLECTIVES if owner is not module else ("barrier", "wait"):
            _replace(owner, name, _waits(steps))


def _paddle_loaders(steps: _Steps, module: Any) -> None:
    for name in ("_DataLoaderIterSingleProcess", "_DataLoaderIterMultiProcess"):
        _replace(getattr(module, name), "__next__", _batches(steps))


def _paddle_optimizers(steps: _Steps, module: ModuleType) -> None:
    for kind in vars(module).values():
        if isinstance(kind, type) and hasattr(kind, "_apply_optimize"):
            for name in ("step", "_apply_optimize"):
                _replace(kind, name, _optimizes(steps))


_TORCH: dict[str, Callable[[_Steps, Any], None]] = {
    "torch.autograd.graph": _torch_backward,
    "torch.distributed": lambda steps, _: _torch_collectives(
        steps, sys.modules.get("torch.distributed.distributed_c10d", sys)
    ),
    "torch.nn.parallel.distributed": lambda steps, module: _replace(
        module.DistributedDataParallel, "forward", _calls(steps)
    ),
    "torch.optim.lr_scheduler": _torch_schedules,
    "torch.optim.optimizer": _torch_optimizers,
    "torch.utils.data.dataloader": _torch_loaders,
}
_PADDLE: dict[str, Callable[[_Steps, Any], None]] = {
    "paddle.base.core": _paddle_core,
    "paddle.distributed": _paddle_collectives,
    "paddle.distributed.parallel": lambda steps, module: _replace(
        module.DataParallel, "forward", _calls(steps)
    ),
    "paddle.io.dataloader.dataloader_iter": _paddle_loaders,
    "paddle.io.reader": lambda steps, module: _replace(module.DataLoader, "__iter__", _opens(steps)),
    "paddle.optimizer": _paddle_optimizers,
}
