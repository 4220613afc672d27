"""Notes about a rank's training, for mistakes that raise nothing: a digest of its first batches, an order of
the data that repeats itself, and samples of the parameters of a model whose wrapper is never called. This
module decides what to note and when; ``diagnosis.silent`` compares the ranks (decision 0034).

Each note is a JSON object on a line of ``training.jsonl`` in the rank's directory:

    {"batch": 0, "digest": 123, "place": […], "library": "torch", "sampler": "RandomSampler", "share": null}
    {"epoch": "0", "place": ["/…/cell.py", 9], "library": "torch"}
    {"model": 0, "name": "Net", "place": […], "library": "torch", "of": 123, "group": [0, 1], "step": 8,
     "sums": [0.5], "within": 1e-4}

A batch counts when the program then calls the wrapped model and an optimizer steps, not in an evaluation. The
model's inputs are part of the digest, since a program may cut its share out of a batch that all ranks read.
"""

from __future__ import annotations

import functools
import json
import operator
import os
import sys
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nbdist.worker.files import append
from nbdist.worker.framework_hooks import after_import
from nbdist.worker.stack_answers import recorded
from nbdist.worker.step_hooks import parameters_of, steps_here

Event = Callable[["Training", Any, Any], object]
Weak = weakref.WeakKeyDictionary[Any, Any]

_BATCHES = 3
_PATIENCE = 200  # optimizer steps without a batch after which the program has a loader of its own
_CHECKED_STEP = 8  # all ranks sample parameters before this step
_MOST_TENSORS = 256
_OF_BATCH, _OF_PARAMETER = 64, 16  # about so many elements of a tensor, spread over it
_DEEPEST, _MOST_PARTS = 6, 64
_LEAST_STEPS = 2  # the order of an epoch with one batch does not matter
_SUMS = ("all_reduce", "allreduce", "broadcast", "barrier")  # collectives of data parallel training
_TENSORS = frozenset({"Tensor", "Parameter", "EagerParamBase", "ndarray"})
"""Types of tensors whose elements this process has: reading those of a DTensor is a collective."""
_AVERAGERS = "torch.distributed.algorithms.model_averaging.averagers"
_INSTALLED = ("site-packages", "dist-packages", os.path.dirname(os.__file__))
_HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass(slots=True)
class _Model:
    """A model wrapped for data parallel training; ``called``: the program has called the wrapper."""

    number: int
    place: tuple[str, int] | None
    steps: int = 0
    called: bool = False


@dataclass(slots=True)
class _Pass:
    """A pass through a sampler's indices. ``before`` is the epoch of the last whole pass with steps."""

    epoch: object
    indices: object
    before: object
    steps: int = 0


@dataclass(slots=True)
class _Optimizer:
    """An optimizer. ``watched`` are the models whose parameters it changes, each with the sampled tensors and
    a checksum of their names; ``models`` the number of models at the time."""

    models: int
    watched: list[tuple[weakref.ref[Any], list[Any], int]]


class Training:
    """The observed training of this process. ``path`` is the file of the notes, ``ranks`` their number. Its
    events receive the object whose method was called, and the arguments or the result."""

    def __init__(self, path: str, ranks: int) -> None:
        self._path = path
        self.ranks = ranks
        self._pid = os.getpid()
        self._models, self._loaders, self._iterators = Weak(), Weak(), Weak()
        self._passes, self._optimizers = Weak(), Weak()
        self._repeated: weakref.WeakSet[Any] = weakref.WeakSet()
        self._last: Callable[[], Any] = lambda: None  # the iterator that was read last
        self._read = 0  # the digest of the batches since the last call of the wrapped model
        self._given: dict[str, Any] | None = None
        self._batches = self._begun = self._made = 0
        self._patience = _PATIENCE
        self.split = False  # the ranks are laid out as a mesh: batches may be the same on purpose
        self.failed = False

    def makes_loader(self, loader: Any, _: object) -> None:
        self._loaders[loader] = _place()

    def begins(self, loader: Any, iterator: Any) -> None:
        self._iterators[iterator] = self._loaders.get(loader)

    def reads(self, iterator: Any, batch: object) -> None:
        self._last = weakref.ref(iterator)
        if self._models and self._batches < _BATCHES:
            self._read = _digest(batch, self._read)

    def orders(self, sampler: Any, indices: object) -> None:
        """Note that a sampler begins a pass."""
        before, last = None, self._passes.get(sampler)
        if last is not None and last.steps >= _LEAST_STEPS and _is_read(last.indices, sampler):
            before = last.epoch
        self._passes[sampler] = _Pass(sampler.epoch, indices, before)

    def wraps(self, model: Any, _: object) -> None:
        self._models[model] = _Model(self._made, _place())
        self._made += 1

    def calls(self, model: Any, given: object) -> None:
        """Note a call of the wrapped model."""
        known = self._models.get(model)
        if known is None or (known.called and self._batches >= _BATCHES):
            return  # all is known: each look costs a step
        library, read, self._read = _library(model), self._read, 0
        if not library.is_grad_enabled():
            return
        known.called = True
        if not read or self._batches >= _BATCHES or _captures(library):
            return
        iterator = self._last()
        sampler = _sampler_of(iterator)
        note = {
            "batch": self._batches,
            "digest": _digest(given, read),
            "place": self._iterators.get(iterator),
            "library": library.__name__,
            "sampler": type(sampler).__name__,
            "share": _share_of(sampler),
        }
        self._given = note if not self.split and _is_over_the_world(model, self.ranks) else None

    def splits(self, mesh: object, _: object) -> None:
        self.split = True

    def steps(self, optimizer: Any, _: object) -> None:
        """Note the batch, its order, and the parameters before an optimizer's step."""
        if not self._models or os.getpid() != self._pid:
            return
        if self._batches < _BATCHES:
            self._note_batch()
        if (iterator := self._last()) is not None:
            self._note_order(_sampler_of(iterator), self._iterators.get(iterator))
        state = self._optimizers.get(optimizer)
        if state is None or state.models != self._made:
            state = self._optimizers[optimizer] = _Optimizer(self._made, list(self._watched(optimizer)))
        for reference, tensors, chosen in state.watched:
            if (model := reference()) is not None:
                known = self._models[model]
                known.steps += 1
                if known.steps == _CHECKED_STEP and not known.called:
                    self._note_parameters(model, tensors, chosen)

    def _note_batch(self) -> None:
        self._patience -= 1
        if self._given is not None:
            self._begun = self._begun or time.time_ns()
            self._batches += 1
            if self._batches < _BATCHES or not _exchange(self._begun):
                self._note(self._given)
        elif not self._patience:
            self._batches = _BATCHES
        self._given = None

    def _note_order(self, sampler: Any, place: object) -> None:
        current = self._passes.get(sampler) if hasattr(sampler, "set_epoch") else None
        if current is None:
            return
        current.steps += 1
        repeats = current.before is not None and current.before == current.epoch and sampler.shuffle
        if repeats and current.steps == _LEAST_STEPS and sampler not in self._repeated:
            self._repeated.add(sampler)
            library = type(sampler).__module__.partition(".")[0]
            self._note({"epoch": str(current.epoch), "place": place, "library": library})

    def _watched(self, optimizer: Any) -> Iterator[tuple[weakref.ref[Any], list[Any], int]]:
        changed = {id(parameter) for parameter in parameters_of(optimizer)}
        for model in list(self._models):
            named = dict(_trained(model))
            both = {name: parameter for name, parameter in named.items() if id(parameter) in changed}
            if both and 2 * len(both) >= len(named):
                names = list(both)[:: -(-len(both) // _MOST_TENSORS)]
                shapes = [(name, tuple(both[name].shape)) for name in names]
                yield weakref.ref(model), [both[name] for name in names], zlib.crc32(repr(shapes).encode())

    def _note_parameters(self, model: Any, tensors: Sequence[Any], chosen: int) -> None:
        known, library = self._models[model], _library(model)
        # the program may synchronise the ranks by itself, and they differ in between
        if getattr(model, "_comm_hooks", ()) or _AVERAGERS in sys.modules or _captures(library):
            return
        sums = [sum(map(abs, _elements(tensor, _OF_PARAMETER))) for tensor in tensors]
        self._note(
            {
                "model": known.number,
                "name": type(_inner(model)).__name__,
                "place": known.place,
                "library": library.__name__,
                "of": chosen,
                "group": _group(model),
                "step": known.steps,
                "sums": [float(f"{total:.8g}") for total in sums],
                # coarser numbers differ more between unlike processors
                "within": 2e-2 if any("float16" in str(tensor.dtype) for tensor in tensors) else 1e-4,
            }
        )

    def _note(self, note: Mapping[str, object]) -> None:
        append(self._path, json.dumps(note).encode() + b"\n")


def _sampler_of(iterator: Any) -> Any:
    """Return the sampler of a loader's iterator; in torch the batch sampler has it."""
    batches = getattr(iterator, "_batch_sampler", None)
    if batches is None:
        batches = getattr(iterator, "_index_sampler", None)
    return getattr(batches, "sampler", batches)


def _share_of(sampler: Any) -> int | None:
    """Return the index of a sampler's share of the data; None where it has none."""
    shares = (getattr(sampler, name, None) for name in ("rank", "local_rank"))
    return next((share for share in shares if type(share) is int), None)


def _is_read(indices: Any, sampler: Any) -> bool:
    """Return whether a pass has ended, perhaps without the last batch."""
    if hasattr(indices, "gi_frame"):
        return indices.gi_frame is None
    return 0 <= operator.length_hint(indices, -1) <= len(sampler) // 10


def _library(model: Any) -> Any:
    return sys.modules["torch" if hasattr(model, "module") else "paddle"]


def _inner(model: Any) -> Any:
    return model.module if hasattr(model, "module") else model._layers


def _trained(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parameters that the wrapper keeps the same on all ranks."""
    ignored = getattr(model, "parameters_to_ignore", ())
    for name, parameter in _inner(model).named_parameters():
        is_torch = hasattr(parameter, "requires_grad")
        trains = parameter.requires_grad if is_torch else not parameter.stop_gradient
        if trains and name not in ignored and _is_local(parameter):
            yield name, parameter


def _is_local(value: Any) -> bool:
    """Return whether a value is a tensor whose elements this process has."""
    return type(value).__name__ in _TENSORS and not (hasattr(value, "is_dist") and value.is_dist())


def _group(model: Any) -> list[int]:
    """Return the ranks that share their gradients."""
    if hasattr(model, "module"):
        return list(sys.modules["torch"].distributed.get_process_group_ranks(model.process_group))
    return list(model.group.ranks) if model.group is not None else []


def _is_over_the_world(model: Any, ranks: int) -> bool:
    """Return whether all ranks of the run divide the data, and no groups divide a model or a sequence."""
    if len(_group(model)) != ranks or "torch.distributed.pipelining" in sys.modules:
        return False
    if hasattr(model, "module"):
        groups = sys.modules["torch.distributed.distributed_c10d"]._world.pg_group_ranks.values()
    else:
        groups = [group.ranks for group in sys.modules["paddle.distributed.collective"]._group_map.values()]
        topology = sys.modules.get("paddle.distributed.fleet.base.topology")
        laid_out = getattr(topology, "_HYBRID_PARALLEL_GROUP", None)
        if laid_out is not None and laid_out.get_data_parallel_world_size() != ranks:
            return False
    return all(len(group) in (0, 1, ranks) for group in groups)


def divides_data(model: Any) -> bool:
    """Return whether all ranks divide the data; ``model`` is the wrapped one, None where there is none."""
    if _training is None or _training.split or "torch.distributed.pipelining" in sys.modules:
        return False
    return model is None or _is_over_the_world(model, _training.ranks)


def _exchange(since: int) -> bool:
    """Return whether torch has recorded more than sums since a time (Unix ns): a model divided by hand."""
    return any(
        entry["time_created_ns"] >= since and not entry["profiling_name"].rpartition(":")[2].startswith(_SUMS)
        for recorder in ("nccl", "fr")
        for entry in recorded(recorder).get("entries", ())
    )


def _captures(library: Any) -> bool:
    """Return whether a CUDA graph is being captured, which forbids copies to the host."""
    cuda: Any = getattr(library, "cuda", None)
    if not hasattr(cuda, "is_current_stream_capturing"):
        return False
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def _elements(tensor: Any, most: int) -> list[Any]:
    """Return some ``most`` elements, spread over a tensor of torch or paddle, or an array."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach()
    each = max(2, round(most ** (1 / max(1, len(tensor.shape)))))
    if spread := tuple(slice(None, None, max(1, size // each)) for size in tensor.shape):
        tensor = tensor[spread]
    return tensor.flatten().tolist()  # type: ignore[no-any-return]


def _digest(value: object, before: int = 0) -> int:
    """Return a checksum of a batch; ``before`` for one without numbers and texts."""
    parts = list(_parts(value))
    return zlib.crc32(repr(parts).encode("utf-8", "replace"), before) or 1 if parts else before


def _parts(value: Any, depth: int = 0) -> Iterator[object]:
    if _is_local(value):
        yield str(value.dtype), tuple(value.shape), _elements(value, _OF_BATCH)
    elif isinstance(value, str):
        yield value[:_MOST_PARTS]
    elif isinstance(value, (int, float)):
        yield value
    elif depth < _DEEPEST:
        items = value.items() if callable(getattr(value, "items", None)) else ()
        listed = value[:_MOST_PARTS] if isinstance(value, (list, tuple)) else ()
        for item in (*items, *listed):
            yield from _parts(item, depth + 1)


def _place() -> tuple[str, int] | None:
    """Return the innermost line of the program and its modules that is being executed."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file.startswith(("<", _HERE)) or any(folder in file for folder in _INSTALLED)):
            return file, frame.f_lineno
        frame = frame.f_back
    return None


_training: Training | None = None


def watch(library: ModuleType) -> None:
    """Start the notes about this rank's training by torch or paddle, once it is imported."""
    global _training
    ranks, directory = int(os.environ.get("WORLD_SIZE", "1")), os.environ.get("NBDIST_RANK_DIR")
    steps = steps_here()
    if ranks < 2 or directory is None or steps is None:
        return
    _training = _training or Training(os.path.join(directory, "training.jsonl"), ranks)
    # one frame in the place of a DataLoader's methods
    steps.on_open, steps.on_batch = (
        _quietly(_training, event) for event in (Training.begins, Training.reads)
    )
    for module, kind, name, event in _METHODS[library.__name__]:
        after_import(module, functools.partial(_listen, _training, kind, name, event))
    if library.__name__ == "torch":
        after_import("torch.optim.optimizer", functools.partial(_listen_to_steps, _training))


def _listen_to_steps(training: Training, optimizing: ModuleType) -> None:
    register = getattr(optimizing, "register_optimizer_step_pre_hook", None)
    if register is not None:
        steps = _quietly(training, Training.steps)
        register(lambda optimizer, given, named: steps(optimizer, given))


def _quietly(training: Training, event: Event) -> Callable[[Any, Any], None]:
    """Return ``event`` such that it never raises: after its first error the notes end."""

    def see(owner: Any, given: Any) -> None:
        if not training.failed:
            try:
                event(training, owner, given)
            except Exception:  # noqa: BLE001 - watching must not fail the program
                training.failed = True

    return see


def _listen(training: Training, kind: str, name: str, event: Event, module: ModuleType) -> None:
    """Report a method's calls to ``event``, with the result, or before the call with the arguments. The added
    frame has the method's file, line and name: for tracebacks, and torch.compile, which skips torch's."""
    owner, see = getattr(module, kind), _quietly(training, event)
    real_call: Any = vars(owner).get(name)
    if real_call is None:
        return

    def show(self: Any, result: Any) -> Any:
        see(self, result)
        return result

    call: Any = lambda self, *given, **named: show(self, real_call(self, *given, **named))  # noqa: E731
    if event in (Training.calls, Training.steps):
        call = lambda self, *given, **named: (see(self, (given, named)), real_call(self, *given, **named))[1]  # noqa: E731
    call, code = functools.wraps(real_call)(call), real_call.__code__
    call.__code__ = call.__code__.replace(
        co_filename=code.co_filename, co_firstlineno=code.co_firstlineno, co_name=code.co_name
    )
    setattr(owner, name, call)


_METHODS: Mapping[str, Sequence[tuple[str, str, str, Event]]] = {
    "torch": (
        ("torch.nn.parallel.distributed", "DistributedDataParallel", "__init__", Training.wraps),
        ("torch.nn.parallel.distributed", "DistributedDataParallel", "_pre_forward", Training.calls),
        ("torch.utils.data.dataloader", "DataLoader", "__init__", Training.makes_loader),
        ("torch.utils.data.distributed", "DistributedSampler", "__iter__", Training.orders),
        ("torch.distributed.device_mesh", "DeviceMesh", "__init__", Training.splits),
    ),
    "paddle": (
        ("paddle.distributed.parallel", "DataParallel", "__init__", Training.wraps),
        ("paddle.distributed.parallel", "DataParallel", "forward", Training.calls),
        ("paddle.io.reader", "DataLoader", "__init__", Training.makes_loader),
        ("paddle.io.dataloader.batch_sampler", "DistributedBatchSampler", "__iter__", Training.orders),
        ("paddle.optimizer.optimizer", "Optimizer", "_apply_optimize", Training.steps),
    ),
}
"""The watched methods of each framework: module, class, method, event."""
