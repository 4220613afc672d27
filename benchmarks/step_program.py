"""A training that times its own steps: ``step_program.py FRAMEWORK CASE STEPS``.

It writes the seconds of its parts into ``truth.json`` in the rank's directory, over the same steps as nbdist:
all but the first two. With a width and seconds for case and steps, it writes the CPU time of steps with and
without nbdist's hooks, in turn (``cost``).

The wait inside backward, in which DDP and DataParallel exchange gradients, lasts from the last gradient that
is ready (DDP's communication hook, paddle's hooks of parameters) to the end of backward.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.worker import step_hooks

_now = time.perf_counter
_INPUTS, _BATCH, _EPOCH, _WARM = 64, 32, 20, 2


def _layers(nn: Any, width: int) -> Any:
    """Return the model, of torch or paddle."""
    sizes = (nn.Linear(_INPUTS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
    return nn.Sequential(*sizes)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A program. ``width`` of the model; ``slow`` seconds that rank 1 computes longer; ``work`` seconds for
    an item of the data; ``evaluates`` after so many steps; ``times_exchange`` of gradients by its own hooks,
    which contend with nbdist's for the interpreter."""

    wrapped: bool = True
    loader: bool = True
    by_hand: bool = False
    width: int = 768
    slow: float = 0.0
    work: float = 0.0
    workers: int = 0
    micro: int = 1
    evaluates: int = 0
    models: int = 1
    closure: bool = False
    beside: float = 0.0
    adam: bool = False
    times_exchange: bool = True


CASES: Mapping[str, Case] = {
    "plain": Case(),
    "slow rank": Case(slow=0.004),
    "slow data": Case(work=0.0002),
    "workers": Case(workers=1, work=0.0003),
    "by hand": Case(wrapped=False, by_hand=True, slow=0.003),
    "accumulation": Case(micro=4, slow=0.002),
    "no DataLoader": Case(loader=False, slow=0.002),
    "evaluation": Case(evaluates=10, work=0.00005),
    "two models": Case(models=2, slow=0.002),
    "closure, Adam, logging": Case(closure=True, adam=True, beside=0.003),
}


def _burn(seconds: float) -> None:
    until = _now() + seconds
    while _now() < until:
        pass


class Torch:
    """The calls of torch that the program makes."""

    def __init__(self, case: Case) -> None:
        import torch
        import torch.distributed

        self.torch, self.case, self.ready = torch, case, 0.0
        torch.distributed.init_process_group("gloo")
        self.rank = torch.distributed.get_rank()

    def model(self) -> Any:
        nn = self.torch.nn
        model = _layers(nn, self.case.width)
        if self.case.wrapped:
            model = nn.parallel.DistributedDataParallel(model)
            if self.case.times_exchange:
                # its annotations are checked
                model.register_comm_hook(None, lambda state, bucket: self._exchange(bucket))
        return model

    def _exchange(self, bucket: Any) -> Any:
        tensor = bucket.buffer().div_(2)
        future = self.torch.distributed.all_reduce(tensor, async_op=True).get_future()
        future = future.then(lambda done: done.value()[0])
        self.ready = _now()
        return future

    def optimizer(self, model: Any) -> Any:
        kind = self.torch.optim.Adam if self.case.adam else self.torch.optim.SGD
        return kind(model.parameters(), lr=1e-4)

    def loader(self) -> Any:
        torch, work = self.torch, self.case.work

        class Data(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
            def __len__(self) -> int:
                return _EPOCH * _BATCH

            def __getitem__(self, item: int) -> Any:
                _burn(work)
                return torch.full((_INPUTS,), item / 1000), torch.ones(1)

        return torch.utils.data.DataLoader(Data(), batch_size=_BATCH, num_workers=self.case.workers)

    def batch(self) -> Any:
        return self.torch.randn(_BATCH, _INPUTS), self.torch.ones(_BATCH, 1)

    def clear(self, optimizer: Any) -> None:
        optimizer.zero_grad()

    def without_sync(self, model: Any) -> Any:
        return model.no_sync()

    def quiet(self) -> Any:
        return self.torch.no_grad()

    def flat(self, model: Any) -> Any:
        return self.torch.cat([parameter.grad.view(-1) for parameter in model.parameters()])

    def all_reduce(self, tensor: Any) -> None:
        self.torch.distributed.all_reduce(tensor)

    def step(self, optimizer: Any, closure: Callable[[], Any] | None) -> None:
        optimizer.step(closure) if closure is not None else optimizer.step()


class Paddle:
    """The same calls of paddle."""

    def __init__(self, case: Case) -> None:
        import paddle
        import paddle.distributed

        self.paddle, self.case, self.ready = paddle, case, 0.0
        paddle.distributed.init_parallel_env()
        self.rank = paddle.distributed.get_rank()

    def model(self) -> Any:
        model = _layers(self.paddle.nn, self.case.width)
        for parameter in model.parameters() if self.case.times_exchange else ():
            parameter.register_hook(self._gradient)
        # one group of gradients: its exchange is the wait at the end of backward
        wrap: Any = self.paddle.DataParallel
        size = {"comm_buffer_size": 100, "last_comm_buffer_size": 100}
        return wrap(model, **size) if self.case.wrapped else model

    def _gradient(self, _: object) -> None:
        self.ready = _now()

    def optimizer(self, model: Any) -> Any:
        kind = self.paddle.optimizer.Adam if self.case.adam else self.paddle.optimizer.SGD
        return kind(1e-4, parameters=model.parameters())

    def loader(self) -> Any:
        paddle, work = self.paddle, self.case.work

        class Data(paddle.io.Dataset):  # type: ignore[misc,name-defined]
            def __len__(self) -> int:
                return _EPOCH * _BATCH

            def __getitem__(self, item: int) -> Any:
                import numpy as np

                _burn(work)
                return np.full(_INPUTS, item / 1000, "float32"), np.ones(1, "float32")

        return paddle.io.DataLoader(Data(), batch_size=_BATCH, num_workers=self.case.workers)

    def batch(self) -> Any:
        return self.paddle.randn([_BATCH, _INPUTS]), self.paddle.ones([_BATCH, 1])

    def clear(self, optimizer: Any) -> None:
        optimizer.clear_grad()

    def without_sync(self, model: Any) -> Any:
        return model.no_sync()

    def quiet(self) -> Any:
        return self.paddle.no_grad()

    def flat(self, model: Any) -> Any:
        return self.paddle.concat([parameter.grad.reshape([-1]) for parameter in model.parameters()])

    def all_reduce(self, tensor: Any) -> None:
        self.paddle.distributed.all_reduce(tensor)

    def step(self, optimizer: Any, closure: Callable[[], Any] | None) -> None:
        if closure is not None:
            closure()
        optimizer.step()


class Program:
    """The training of a case, and its own seconds of each part."""

    def __init__(self, library: Any, case: Case) -> None:
        self.library, self.case = library, case
        self.parts = dict.fromkeys(("data", "forward", "backward", "wait", "optimizer"), 0.0)
        self.models = [library.model() for _ in range(case.models)]
        self.optimizers = [library.optimizer(model) for model in self.models]
        self.loader: Any = library.loader() if case.loader else None
        self.batches: Any = iter(())

    def run(self, steps: int) -> dict[str, float]:
        begun = 0.0
        for step in range(steps):
            for number in range(self.case.models):
                self._step(number)
                if number == 0:
                    ended = _now()
                    if step == _WARM - 1:
                        begun, self.parts = ended, dict.fromkeys(self.parts, 0.0)
                    total, parts = ended - begun, dict(self.parts)
            _burn(self.case.beside)
            if self.case.evaluates and step % self.case.evaluates == 0:
                self._evaluate()
        return {"seconds": total, **parts}

    def _step(self, number: int) -> None:
        model, optimizer, library, case = (
            self.models[number],
            self.optimizers[number],
            self.library,
            self.case,
        )
        for micro in range(case.micro):
            begun = _now()
            x, y = self._batch()
            self._add("data", begun, 0.0 if case.loader else _now() - begun)

            def passes(last: bool = micro == case.micro - 1, x: Any = x, y: Any = y) -> Any:
                quiet = case.wrapped and not last
                with library.without_sync(model) if quiet else contextlib.nullcontext():
                    begun = _now()
                    loss = ((model(x) - y) ** 2).mean()
                    _burn(case.slow * library.rank)
                    self._add("forward", begun)
                    begun = _now()
                    loss.backward()
                    ended = _now()
                wait = ended - library.ready if case.wrapped and last else 0.0
                self._add("backward", begun, wait + _now() - ended)
                self.parts["wait"] += wait
                return loss

            if not case.closure:
                passes()
        if case.by_hand:
            flat = library.flat(model)
            begun = _now()
            library.all_reduce(flat)
            self._add("wait", begun)
        inside = sum(self.parts.values())
        begun = _now()
        library.step(optimizer, passes if case.closure else None)
        self._add("optimizer", begun, sum(self.parts.values()) - inside)
        library.clear(optimizer)

    def _batch(self) -> Any:
        if self.loader is None:
            return self.library.batch()
        try:
            return next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            return next(self.batches)

    def _evaluate(self) -> None:
        with self.library.quiet():
            for x, _ in self.loader:
                self.models[0](x)

    def _add(self, part: str, begun: float, less: float = 0.0) -> None:
        self.parts[part] += _now() - begun - less


def _stand_ins(framework: str) -> list[tuple[Any, str]]:
    """Return nbdist's stand-ins that a step calls, by owner and name."""
    if framework == "torch":
        import torch

        loading = torch.utils.data.dataloader
        return [
            (torch.autograd, "backward"),
            (loading._BaseDataLoaderIter, "__next__"),
            (loading.DataLoader, "__iter__"),
            (torch.nn.parallel.DistributedDataParallel, "forward"),
            (torch.optim.SGD, "step"),
        ]
    import paddle
    from paddle.io.dataloader import dataloader_iter

    optimizing: Any = paddle.optimizer.optimizer
    return [
        (paddle.base.core.eager, "run_backward"),
        (dataloader_iter._DataLoaderIterSingleProcess, "__next__"),
        (paddle.io.DataLoader, "__iter__"),
        (optimizing.Optimizer, "step"),
        (paddle.DataParallel, "forward"),
    ]


class Switch:
    """nbdist's stand-ins and hooks of gradients in this process, which can be turned off and on."""

    def __init__(self, framework: str) -> None:
        names = [pair for pair in _stand_ins(framework) if hasattr(vars(pair[0]).get(pair[1]), "__wrapped__")]
        self._calls = [(owner, name, vars(owner)[name]) for owner, name in names]

    def turn(self, on: bool) -> None:
        for exchanges in step_hooks._steps._models.values() if step_hooks._steps else ():
            exchanges.synchronizes = on
        for owner, name, call in self._calls:
            setattr(owner, name, call if on else call.__wrapped__)


def cost(framework: str, width: int, seconds: float) -> dict[str, list[float]]:
    """Return the seconds of the main thread that a step takes, of short blocks with and without the stand-ins
    in turn, but for the first step of a block: a loaded machine does not change them as it does the clock,
    and what drifts changes both."""
    case = Case(width=width, times_exchange=False)
    program = Program(Torch(case) if framework == "torch" else Paddle(case), case)
    switch = Switch(framework)
    steps = _EPOCH - 1 if program.run(_EPOCH)["seconds"] < _EPOCH * 0.002 else 4
    blocks: dict[str, list[float]] = {"on": [], "off": []}
    until = _now() + seconds
    while _now() < until:
        for on in (True, False) if len(blocks["on"]) % 2 else (False, True):
            switch.turn(on)
            program.batches = iter(program.loader)
            program._step(0)
            begun = time.thread_time()
            for _ in range(steps):
                program._step(0)
            blocks["on" if on else "off"].append((time.thread_time() - begun) / steps)
    return blocks


def main(arguments: Sequence[str]) -> None:
    framework, name, much = arguments
    if name in CASES:
        case = CASES[name]
        answer: Any = Program(Torch(case) if framework == "torch" else Paddle(case), case).run(int(much))
    else:
        answer = cost(framework, int(name), float(much))
    with open(os.path.join(os.environ["NBDIST_RANK_DIR"], "truth.json"), "w") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    main(sys.argv[1:])
