"""Names of the notebook, pushed into warm and cold ranks alike."""

from __future__ import annotations

import sys

import pytest

from nbdist import runner

pytestmark = [
    pytest.mark.usefixtures("leaves_nothing"),
    pytest.mark.skipif(sys.platform != "linux", reason="ranks wait on Linux alone"),
]

NOTEBOOK = """
import torch
SCALE = 3
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(1, 1)
    def forward(self, x):
        return self.body(x) * SCALE
net = Net()
torch.nn.init.ones_(net.body.weight)
torch.nn.init.zeros_(net.body.bias)
"""
USES_TORCH = """
import sys, torch
print(type(net) is Net, net(torch.ones(1, 1)).item(), isinstance(net, torch.nn.Module))
"""
USES_NONE = """
import sys
print("torch" in sys.modules, "cloudpickle" in sys.modules, cfg)
import torch
print("torch" in sys.modules)
"""


def test_warm_ranks_get_a_model_as_cold_ones_do(make_plan, stand_by, run_on) -> None:
    values: dict[str, object] = {"__name__": "__main__"}
    exec(NOTEBOOK, values)

    the_same_warm_and_cold(make_plan, stand_by, run_on, "net,Net", USES_TORCH, values)


@pytest.mark.usefixtures("light_torch")
def test_warm_ranks_get_a_dict_as_cold_ones_do_without_an_import(make_plan, stand_by, run_on) -> None:
    the_same_warm_and_cold(make_plan, stand_by, run_on, "cfg", USES_NONE, {"cfg": {"a": 1}})


def the_same_warm_and_cold(
    make_plan, stand_by, run_on, names: str, cell: str, values: dict[str, object]
) -> None:
    """Push the names of a notebook with these values into both."""
    plans = [make_plan(f"-n 1 --push {names}", cell, namespace=runner.Namespace(values=values)) for _ in "12"]

    warm = run_on(stand_by(make_plan("-n 1")), plans[0])
    cold = runner.start(plans[1], warm=False)

    assert (warm.wait(60), cold.wait(60)) == ("finished", "finished"), warm.logs(0) + cold.logs(0)
    assert warm.logs(0) == cold.logs(0)
    assert "again" not in warm.logs(0)
    assert not warm.directory.inputs.exists()
