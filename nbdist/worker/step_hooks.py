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
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

from nbdist.worker import profiler, training_facts
from nbdist.worker.framework_hooks import after_import
from nbdist.worker.gradient_exchanges import GradientExchanges
from nbdist.worker.step_time import NAME, StepRecord, StepTimer
from nbdist.worker.training_probe import TrainingProbe, Weak, program_line

_clock = time.perf_counter_ns
_learning_rate = training_facts.learning_rate
_DEEPEST = 4
_CHECKED_STEP = 8  # by then a wrapper has been called, or gradients have been averaged by hand

_COLLECTIVES = (
    *("all_gather", "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce"),
    *("all_reduce_coalesced", "all_to_all", "all_to_all_single", "alltoall", "alltoall_single", "barrier"),
    *("broadcast", "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "recv"),
    *("recv_object_list", "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor"),
    *("scatter", "scatter_object_list", "send", "send_object_list", "wait"),
)
_FLEET = "paddle.distributed.fleet"
_SHARDING = "meta_optimizers.dygraph_optimizer.dygraph_sharding_optimizer"
# other wrappers of optimizers call step()
_FLEET_OPTIMIZERS = (
    (_SHARDING, "DygraphShardingOptimizer"),
    (_SHARDING, "DygraphShardingOptimizerV2"),
    ("utils.mix_precision_utils", "MixPrecisionOptimizer"),
)
_SCHEDULES = ("LRScheduler", "_LRScheduler", "ReduceLROnPlateau", "SequentialLR", "ChainedScheduler")

Given = tuple[Any, ...]
Named = dict[str, Any]


class _Steps:
    """The training of this process: its timer, its record, and what its facts are read from.

    Hooks run among a program's own work, each with cold caches, so they only note events, which ``take``
    gives to the timer and to the notes in the thread that writes the record. Those of each step are the
    stand-in itself, which ``around_`` returns: one function to touch. Others come in pairs: ``begin_``
    returns the time, or 0 where the call does not count. ``busy``: a call but backward or an optimizer's step
    is going on, and those within it do not count.
    """

    def __init__(self, path: str, ranks: int) -> None:
        self.timer = timer = StepTimer(_clock())
        self.probe = TrainingProbe(ranks)
        self.notes = training_facts.TrainingNotes(timer, self.probe)
        self.record = StepRecord(path, timer, self._describe)
        self.pid = os.getpid()
        self.writes = allocate_lock()
        self._events, self._note = timer.events, timer.events.append
        self._main = get_ident()
        self._model: Callable[[], Any] = _ignore
        self._models: dict[int, GradientExchanges] = {}
        self._optimizers: dict[int, tuple[Named, Named]] = {}
        self._schedules = Weak()
        self.begin()

    def begin(self) -> None:
        """Begin a step: no call goes on."""
        self._busy = self._back = self._stepping = self._has_batch = False
        self._note((self.timer.pause, _clock()))

    def take(self) -> None:
        """Give the events to the timer and the notes."""
        while self._events:
            with suppress(Exception):  # the facts are read from objects of the program
                while self._events:
                    event = self._events.popleft()
                    event[0](*event[1:])

    def begin_wait(self, name: str, given: Given, named: Named) -> int:
        if self._busy or get_ident() != self._main:
            return 0
        if name not in training_facts.SILENT:
            shape = getattr((given or (*named.values(), None))[0], "shape", ())
            self._note((self.notes.tells, name, shape, self._back))
            if self.probe.looks:
                self.probe.exchanges(name)
        if named and (named.get("async_op") or not named.get("sync_op", True)):
            return 0
        self._busy = True
        return _clock()

    def end_wait(self, begun: int, *_: Any) -> None:
        self._busy = False
        self._note((self.timer.waited, begun, _clock()))

    def begin_make(self, given: Given, _: Named) -> int:
        self.probe.places[given[0]] = program_line()
        return 0

    def begin_open(self, given: Given, _: Named) -> int:
        if self._busy or self._back or get_ident() != self._main:
            return 0
        self._order = training_facts.data_order(given[0])
        return _clock()

    def end_open(self, begun: int, given: Given, iterator: Any) -> None:
        key, loader = id(iterator), given[0]
        self._note((self.timer.opened, key, begun, _clock()))
        facts, place = training_facts.loader_facts(loader), self.probe.places.get(loader)
        self._note((self.notes.opens, key, facts, self._order, place))
        self.probe.loaders[iterator] = {"place": place, "sampler": facts["sampler"], "share": facts["share"]}

    def around_fetch(self, real_call: Any) -> Any:
        main, note, fetched, probe = self._main, self._note, self._fetched, self.probe

        def call(*given: Any, **named: Any) -> Any:
            if self._busy or self._back or get_ident() != main:
                return real_call(*given, **named)
            self._busy, batch, begun = True, None, _clock()
            try:
                batch = real_call(*given, **named)
                return batch
            finally:
                self._busy, self._has_batch = False, batch is not None
                try:
                    # what most are is read here: another function would take a tenth of a step's hooks
                    if type(batch) is list and batch and (shape := getattr(batch[0], "shape", None)):
                        samples = shape[0]
                    else:
                        samples = None if batch is None else _samples(batch)
                    note((fetched, id(given[0]), begun, samples, _clock()))
                    if probe.looks and batch is not None:
                        probe.reads(given[0], batch)
                except Exception:  # noqa: BLE001
                    pass

        return call

    def _fetched(self, iterator: int, begun: int, samples: int | None, now: int) -> None:
        if samples is not None:
            # a first tensor with more rows has no row for each sample
            samples = min(samples, self.notes.loader(iterator).get("loader_batch") or sys.maxsize)
        self.timer.fetched(iterator, begun, now, samples)
        self.notes.reads(iterator, samples)

    def begin_wrap(self, given: Given, _: Named) -> int:
        self.probe.wrapped[given[0]] = program_line()
        return 0

    def around_call(self, real_call: Any) -> Any:
        """Take the calls of wrapped models."""
        main, note, called = self._main, self._note, self._called
        notes, models, probe = self.notes, self._models, self.probe

        def call(*given: Any, **named: Any) -> Any:
            if not (self._busy or self._back or get_ident() != main):
                try:
                    now, model = _clock(), given[0]
                    exchanges = models.get(id(model)) or self._meet_model(model)
                    if exchanges.order:
                        exchanges.settle()
                    exchanges.synchronizes = getattr(model, exchanges.switch)
                    reads = notes.looks or not self._has_batch
                    note((called, now, _samples(given[1:] or named) if reads else 0))
                    if probe.looks:
                        probe.calls(model, (given[1:], named))
                except Exception:  # noqa: BLE001
                    pass
            return real_call(*given, **named)

        return call

    def _meet_model(self, model: Any) -> GradientExchanges:
        exchanges = self._models[id(model)] = GradientExchanges(self.timer, model)
        self._model = weakref.ref(model)
        weakref.finalize(model, self._models.pop, id(model)).atexit = False
        return exchanges

    def _called(self, now: int, samples: int) -> None:
        self.timer.called(now)
        if not self.timer.pending:  # there is no DataLoader
            self.timer.pending[0] = 0, samples
        self.notes.calls(samples)

    def begin_split(self, *_: Any) -> int:
        self.probe.is_split = True
        return 0

    def around_backward(self, real_call: Any) -> Any:
        main, note = self._main, self._note
        begins_back, went_back = self.timer.begins_back, self.timer.went_back

        def call(*given: Any, **named: Any) -> Any:
            if self._busy or self._back or get_ident() != main:
                return real_call(*given, **named)
            self._back = True
            note((begins_back, _clock()))
            try:
                return real_call(*given, **named)
            finally:
                self._back = self._has_batch = False
                note((went_back, _clock()))

        return call

    def around_step(self, real_call: Any) -> Any:
        main, note, probe, optimizers = self._main, self._note, self.probe, self._optimizers
        enters, left, profiles = self.timer.enters, self._left, profiler.STEPS in os.environ

        def call(*given: Any, **named: Any) -> Any:
            if self._stepping or get_ident() != main:
                return real_call(*given, **named)
            self._stepping, optimizer = True, given[0]
            note((enters, id(optimizer), _clock()))
            try:
                return real_call(*given, **named)
            finally:
                self._stepping = False
                try:
                    known = optimizers.get(id(optimizer)) or self._meet(optimizer)
                    note((left, known, _learning_rate(optimizer), _clock()))
                    if probe.looks:
                        probe.steps()
                    if profiles:
                        profiler.step_ended(id(optimizer))
                except Exception:  # noqa: BLE001
                    pass

        return call

    def _meet(self, optimizer: Any) -> tuple[Named, Named]:
        """Return the facts of a training at its first step, since its process group may go before they are
        written, and what is to be noted, should it never call a wrapper."""
        schedule = self._schedules.get(optimizer)
        facts = training_facts.of_training(optimizer, schedule, self._model(), self.probe)
        known = facts, self.probe.uncalled(training_facts.trained_by(optimizer))
        self._optimizers[id(optimizer)] = known
        weakref.finalize(optimizer, self._optimizers.pop, id(optimizer)).atexit = False
        return known

    def _left(self, known: tuple[Named, Named], rate: float | None, now: int) -> None:
        (facts, uncalled), step = known, self.timer.leaves(now)
        if step == 1:
            self.notes.begins(dict(facts))
        if step:
            self.notes.steps(rate)
        if step == _CHECKED_STEP and self._model is _ignore and not self.notes.has_exchanged:
            self.probe.notes |= uncalled

    def begin_schedule(self, given: Given, named: Named) -> int:
        self._schedules[named.get("optimizer") or given[1]] = type(given[0]).__name__
        return 0

    def _describe(self) -> dict[str, Any]:
        """Return the facts and notes as they are now."""
        self.notes.facts.update(self.notes.loader(self.timer.trained))
        return {"facts": dict(self.notes.facts), "notes": dict(self.probe.notes)}


def _ignore(*_: Any) -> Any:
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
    _steps = _steps or _Steps(os.path.join(directory, NAME), int(os.environ.get("WORLD_SIZE", "1")))
    for name, path, calls, what in _CALLS[library.__name__]:
        after_import(name, functools.partial(_install, _steps, path, calls, what))
    for name, action in _OTHERS[library.__name__]:
        after_import(name, functools.partial(action, _steps))


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


def _around(
    begin: Callable[[Given, Named], int], end: Callable[[int, Given, Any], None], real_call: Any
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

    return call


def _stand_in(around: Callable[[Any], Any], real_call: Any) -> Any:
    call = around(real_call)
    with suppress(AttributeError, TypeError):
        functools.update_wrapper(call, real_call)
    if (code := getattr(real_call, "__code__", None)) is not None:
        call.__code__ = call.__code__.replace(
            co_filename=code.co_filename, co_firstlineno=code.co_firstlineno, co_name=code.co_name
        )
    return call


def _install(steps: _Steps, path: str, names: Sequence[str], what: str, module: ModuleType) -> None:
    """Put stand-ins in the place of functions of a module, or of what is at ``path`` in it."""
    owner: Any = module
    for part in filter(None, path.split(".")):
        owner = getattr(owner, part, None)
    for name in names:
        real: Any = getattr(owner, "__dict__", {}).get(name)
        if callable(real):
            if (around := getattr(steps, f"around_{what}", None)) is None:
                begin, end = getattr(steps, f"begin_{what}"), getattr(steps, f"end_{what}", _ignore)
                begin = functools.partial(begin, name) if what == "wait" else begin
                around = functools.partial(_around, begin, end)
            call = _stand_in(around, real)
            setattr(owner, name, call)
            if vars(module).get(name) is real:  # it has imported it by name
                setattr(module, name, call)


def _install_in_torch_optimizers(steps: _Steps, module: Any) -> None:
    # outside of it is torch's profiler, whose frame takes 0.1 ms of a step
    wrap: Any = getattr(module.Optimizer, "profile_hook_step", None)
    if wrap is not None:
        module.Optimizer.profile_hook_step = staticmethod(
            lambda function: _stand_in(steps.around_step, wrap(function))
        )


def _install_in_paddle_optimizers(steps: _Steps, module: ModuleType) -> None:
    for name, kind in vars(module).items():
        if hasattr(kind, "_apply_optimize"):
            _install(steps, name, ("step", "minimize"), "step", module)


_CALLS: dict[str, tuple[tuple[str, str, tuple[str, ...], str], ...]] = {
    "torch": (
        ("torch.autograd", "", ("backward", "grad"), "backward"),
        ("torch.distributed", "distributed_c10d", _COLLECTIVES, "wait"),
        ("torch.distributed", "distributed_c10d.Work", ("wait",), "wait"),
        ("torch.distributed", "", ("_broadcast_coalesced",), "wait"),
        ("torch.distributed.device_mesh", "DeviceMesh", ("__init__",), "split"),
        ("torch.nn.parallel.distributed", "DistributedDataParallel", ("__init__",), "wrap"),
        ("torch.nn.parallel.distributed", "DistributedDataParallel", ("forward",), "call"),
        *(("torch.optim.lr_scheduler", kind, ("__init__",), "schedule") for kind in _SCHEDULES),
        ("torch.utils.data.dataloader", "_BaseDataLoaderIter", ("__next__",), "fetch"),
        ("torch.utils.data.dataloader", "DataLoader", ("__init__",), "make"),
        ("torch.utils.data.dataloader", "DataLoader", ("__iter__",), "open"),
    ),
    "paddle": (
        ("paddle.base.core", "eager", ("run_backward",), "backward"),
        ("paddle.base.core", "task", ("wait",), "wait"),
        ("paddle.distributed", "communication.stream", _COLLECTIVES, "wait"),
        ("paddle.distributed", "", ("barrier", "wait"), "wait"),
        *((f"{_FLEET}.{name}", kind, ("step",), "step") for name, kind in _FLEET_OPTIMIZERS),
        ("paddle.distributed.parallel", "DataParallel", ("__init__",), "wrap"),
        ("paddle.distributed.parallel", "DataParallel", ("forward",), "call"),
        ("paddle.io.dataloader.dataloader_iter", "_DataLoaderIterSingleProcess", ("__next__",), "fetch"),
        ("paddle.io.dataloader.dataloader_iter", "_DataLoaderIterMultiProcess", ("__next__",), "fetch"),
        ("paddle.io.reader", "DataLoader", ("__init__",), "make"),
        ("paddle.io.reader", "DataLoader", ("__iter__",), "open"),
    ),
}
"""The calls of each framework: module, what has them there, their names, and the hooks."""

_OTHERS: dict[str, tuple[tuple[str, Callable[[_Steps, Any], None]], ...]] = {
    "torch": (
        ("torch._dynamo.trace_rules", lambda _, module: module.add("nbdist")),
        ("torch.optim.optimizer", _install_in_torch_optimizers),
    ),
    "paddle": (("paddle.optimizer", _install_in_paddle_optimizers),),
}
