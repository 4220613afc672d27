"""How torch and paddle tell a rank what it trains (``worker.training``): from their import on, some of their
methods tell nbdist that they are called."""

from __future__ import annotations

import functools
import os

from nbdist.worker.framework_hooks import after_import
from nbdist.worker.training import Training

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any

_training: Training | None = None


def watch(library: ModuleType) -> None:
    """From now on note what this rank trains; to be called with torch or paddle once it is imported."""
    global _training
    ranks, directory = int(os.environ.get("WORLD_SIZE", "1")), os.environ.get("NBDIST_RANK_DIR")
    if ranks < 2 or directory is None:
        return
    _training = _training or Training(os.path.join(directory, "training.jsonl"), ranks)
    for name, hook in _HOOKS[library.__name__].items():
        after_import(name, functools.partial(hook, _training))


def _quietly(training: Training, event: Callable[..., object]) -> Callable[..., object]:
    """``event``, which never fails the program: after one error nothing is looked at any more."""

    def seen(*given: Any) -> None:
        if not training.failed:
            try:
                event(*given)
            except Exception:  # noqa: BLE001 - a program that is only watched must not fail of it
                training.failed = True

    return seen


# What is looked at is called through one frame more. It has the file, the line and the name of the function
# that it stands for: in a traceback, and for torch.compile, which passes over torch's own files.


def _before(kind: Any, name: str, see: Callable[..., object]) -> None:
    """Call ``see`` with the object and what a method is given, and then the method."""
    if (real := vars(kind).get(name)) is not None:
        call = lambda self, *given, **named: (see(self, (given, named)), real(self, *given, **named))[1]  # noqa: E731
        setattr(kind, name, _like(real, call))


def _after(kind: Any, name: str, see: Callable[..., object]) -> None:
    """Call a method, and then ``see`` with the object and what the method has returned."""

    def show(self: Any, result: Any) -> Any:
        see(self, result)
        return result

    if (real := vars(kind).get(name)) is not None:
        call = lambda self, *given, **named: show(self, real(self, *given, **named))  # noqa: E731
        setattr(kind, name, _like(real, call))


def _like(real: Any, call: Any) -> Any:
    code = real.__code__
    call = functools.wraps(real)(call)
    call.__code__ = call.__code__.replace(
        co_filename=code.co_filename, co_firstlineno=code.co_firstlineno, co_name=code.co_name
    )
    return call


def _models(kind: Any, called: str, training: Training) -> None:
    def calls(model: Any, given: object) -> None:
        training.calls(model, given)

    _after(kind, "__init__", _quietly(training, lambda model, _: training.wraps(model)))
    _before(kind, called, _quietly(training, calls))


def _torch_models(training: Training, parallel: ModuleType) -> None:
    _models(parallel.DistributedDataParallel, "_pre_forward", training)


def _paddle_models(training: Training, parallel: ModuleType) -> None:
    _models(parallel.DataParallel, "forward", training)


def _loaders(training: Training, reader: ModuleType) -> None:
    _after(reader.DataLoader, "__init__", _quietly(training, lambda one, _: training.makes_loader(one)))
    _after(reader.DataLoader, "__iter__", _quietly(training, training.begins))


def _torch_data(training: Training, dataloader: ModuleType) -> None:
    _loaders(training, dataloader)
    _after(dataloader._BaseDataLoaderIter, "__next__", _quietly(training, training.reads))


def _paddle_batches(training: Training, iterators: ModuleType) -> None:
    for kind in (iterators._DataLoaderIterSingleProcess, iterators._DataLoaderIterMultiProcess):
        _after(kind, "__next__", _quietly(training, training.reads))


def _torch_order(training: Training, sampling: ModuleType) -> None:
    _after(sampling.DistributedSampler, "__iter__", _quietly(training, training.orders))


def _paddle_order(training: Training, sampling: ModuleType) -> None:
    _after(sampling.DistributedBatchSampler, "__iter__", _quietly(training, training.orders))


def _torch_steps(training: Training, optimizing: ModuleType) -> None:
    register = getattr(optimizing, "register_optimizer_step_pre_hook", None)
    if register is not None:
        steps = _quietly(training, training.steps)
        register(lambda optimizer, given, named: steps(optimizer))


def _paddle_steps(training: Training, optimizing: ModuleType) -> None:
    steps = _quietly(training, lambda optimizer, _: training.steps(optimizer))
    _before(optimizing.Optimizer, "_apply_optimize", steps)


def _meshes(training: Training, meshes: ModuleType) -> None:
    def lays_out(*_: object) -> None:
        training.split = True

    _after(meshes.DeviceMesh, "__init__", _quietly(training, lays_out))


_HOOKS: Mapping[str, Mapping[str, Callable[[Training, Any], None]]] = {
    "torch": {
        "torch.nn.parallel.distributed": _torch_models,
        "torch.utils.data.dataloader": _torch_data,
        "torch.utils.data.distributed": _torch_order,
        "torch.optim.optimizer": _torch_steps,
        "torch.distributed.device_mesh": _meshes,
    },
    "paddle": {
        "paddle.distributed.parallel": _paddle_models,
        "paddle.io.reader": _loaders,
        "paddle.io.dataloader.dataloader_iter": _paddle_batches,
        "paddle.io.dataloader.batch_sampler": _paddle_order,
        "paddle.optimizer.optimizer": _paddle_steps,
    },
}
