"""Which layer refused its input although it has trained."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from nbdist.worker.failure.layers import refused

PROGRAM = """
import json, warnings
import torch
from torch import nn
from nbdist.worker.failure.layers import refused
warnings.simplefilter("error")
def steps(layer, x, count):
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(count):
        optimizer.zero_grad()
        layer(x).sum().backward()
        optimizer.step()
    optimizer.zero_grad()
    return layer
class Tensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if "__get__" in str(function):
            raise SystemExit
        return super().__torch_function__(function, types, args, kwargs or {})
def made(layer):
    for _ in range(2):
        nn.init.trunc_normal_(layer.weight)
    layer.load_state_dict(layer.state_dict())
    return layer.to("cpu")
linear, image = nn.Linear(4, 2), nn.Conv2d(3, 2, 1)
calls = {
    "a gradient": lambda: (linear(torch.ones(1, 4)).sum().backward(), linear(torch.ones(1, 5))),
    "many steps": lambda: steps(nn.Linear(4, 2), torch.ones(1, 4), 20)(torch.ones(3, 7)),
    "within others": lambda: nn.Sequential(nn.Identity(), linear)(torch.ones(1, 6)),
    "an image": lambda: steps(image, torch.ones(1, 3, 4, 4), 20)(torch.ones(1, 1, 4, 4)),
    "one image": lambda: image(torch.ones(1, 28, 28)),
    "not trained": lambda: nn.Linear(4, 2)(torch.ones(1, 5)),
    "made and loaded": lambda: made(nn.Linear(4, 2))(torch.ones(1, 5)),
    "another dtype": lambda: linear(torch.ones(1, 4, dtype=torch.float64)),
    "another number of dimensions": lambda: image(torch.ones(4, 5)),
    "no tensor": lambda: linear([1, 2]),
    "a tensor of the program": lambda: linear(torch.ones(1, 5).as_subclass(Tensor)),
    "groups": lambda: steps(nn.Conv1d(4, 4, 1, groups=2), torch.ones(1, 4, 4), 20)(torch.ones(1, 3, 4)),
    "a flat weight": lambda: (setattr(flat.weight, "data", torch.ones(8)), flat(torch.ones(1, 5))),
    "a computed weight": lambda: computed(torch.ones(1, 5)),
}
flat = steps(nn.Linear(4, 2), torch.ones(1, 4), 20)
computed = nn.Linear(4, 2)
weight = computed._parameters.pop("weight")
computed.weight = weight * 2
for name, call in calls.items():
    try:
        call()
    except Exception as error:
        print(json.dumps([name, refused(error.__traceback__)]))
"""


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_a_layer_that_has_trained_is_told_with_what_it_got(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    found = dict(json.loads(line) for line in done.stdout.splitlines())
    assert len(found) == 14
    assert {name: what for name, what in found.items() if what} == {
        "a gradient": ["Linear", 4, 5],
        "many steps": ["Linear", 4, 7],
        "within others": ["Linear", 4, 6],
        "an image": ["Conv2d", 3, 1],
        "one image": ["Conv2d", 3, 1],
    }


def test_of_no_layer_nothing_is_told() -> None:
    class Linear:
        weight = property(lambda self: 1 / 0)

        def forward(self, x: int) -> float:
            return x / 0

    with pytest.raises(ZeroDivisionError) as raised:
        Linear().forward(1)

    assert refused(raised.value.__traceback__) is None
    assert refused(None) is None
