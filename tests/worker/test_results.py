"""``nbdist.result`` in a rank: what is stored as what, and that a value is whole or not there."""

from __future__ import annotations

import argparse
import json
import pickle
import re
from typing import Any

import pytest

from nbdist.store.results import Result, read_index, read_value
from nbdist.worker.result_files import Params
from tests.worker.conftest import Rank


def given(rank: Rank, program: str) -> tuple[Result, Any]:
    """Return the result ``x`` of a program, read back."""
    rank.does(program)
    result = read_index(rank.files)["x"]
    return result, read_value(rank.files, result)


def test_what_json_keeps_is_json_and_nothing_else(rank: Rank) -> None:
    kept = [
        "0.93",
        "{'loss': [0.5, 0.25], 'ok': True, 'none': None, 'ä': 'é'}",
        "float('inf')",
        "2 ** 400",
        "''",
    ]
    # the last has too many digits to be written
    changed = ["(1, 2)", "{1: 2}", "{1, 2}", "10 ** 5000"]
    texts = [*kept, *changed]
    rank.does(f"nbdist.result({', '.join(f'x{at}={text}' for at, text in enumerate(texts))})")

    results = list(read_index(rank.files).values())
    assert [result.format == "json" for result in results] == [True] * len(kept) + [False] * len(changed)
    for text, result in zip(texts, results, strict=True):
        value = read_value(rank.files, result)
        assert value == eval(text)
        assert type(value) is type(eval(text))


def test_arrays_are_npy_and_come_back_as_they_were(rank: Rank) -> None:
    import numpy

    texts = [
        "numpy.arange(12.0).reshape(3, 4)",
        "numpy.zeros((0, 3), dtype='int8')",
        "numpy.arange(24).reshape(4, 6)[::2, ::-1]",
        "numpy.array(['2026-11-23'], dtype='datetime64[D]')",
        "numpy.float32(0.1)",
    ]
    given = ", ".join(f"x{at}={text}" for at, text in enumerate(texts))
    rank.does(f"import numpy\nnbdist.result({given})")

    for text, result in zip(texts, read_index(rank.files).values(), strict=True):
        value, expected = read_value(rank.files, result), eval(text, {"numpy": numpy})
        assert (result.format, result.shape) == ("npy", expected.shape)
        assert type(value) is type(expected)
        assert value.dtype == expected.dtype
        numpy.testing.assert_array_equal(value, expected)


def test_tensors_of_torch_come_back_as_they_were(rank: Rank) -> None:
    import torch

    dtypes = ["float32", "float64", "bfloat16", "float16", "int64", "uint8", "bool"]
    each = [f"{dtype}=torch.arange(6).reshape(2, 3).to(torch.{dtype}).t()" for dtype in dtypes]
    rank.does(f"import torch\nnbdist.result({', '.join(each)})")

    results = read_index(rank.files)
    assert list(results) == dtypes
    for dtype, result in results.items():
        value = read_value(rank.files, result)
        expected = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype)).t()
        about = (result.kind, result.format, result.shape, result.dtype)
        assert about == ("tensor", "safetensors", (3, 2), dtype)
        assert value.dtype == expected.dtype
        assert torch.equal(value, expected)


def test_a_module_of_torch_is_its_state_dict_without_what_ddp_puts_around_it(rank: Rank) -> None:
    import torch

    program = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=0, world_size=1)
torch.manual_seed(3)
net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2))
nbdist.result(x=torch.nn.parallel.DistributedDataParallel(net))
"""
    result, value = given(rank, program)

    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2))
    assert (result.kind, result.repr) == ("state_dict", "7 tensors")
    assert result.type == "torch.nn.parallel.distributed.DistributedDataParallel"
    assert list(value) == list(net.state_dict())
    assert all(torch.equal(value[name], tensor) for name, tensor in net.state_dict().items())
    net.load_state_dict(value)


def test_the_library_reads_the_tensors_too(rank: Rank) -> None:
    import torch
    from safetensors.torch import load_file

    result, value = given(rank, "import torch\nnbdist.result(x={'a': torch.ones(3), 'b': torch.tensor(2)})")

    loaded = load_file(rank.files.results / result.file)
    assert loaded.keys() == value.keys() == {"a", "b"}
    assert all(torch.equal(loaded[name], value[name]) for name in loaded)


@pytest.mark.filterwarnings("ignore")  # paddle has several when it is imported
def test_tensors_and_layers_of_paddle_come_back(rank: Rank) -> None:
    import paddle

    dtypes = ["float32", "bfloat16", "int64", "bool"]
    each = [f"{dtype}={{'a': paddle.arange(6).reshape([2, 3]).astype('{dtype}')}}" for dtype in dtypes]
    rank.does(f"import paddle\nnbdist.result({', '.join(each)}, layer=paddle.nn.Linear(2, 3))")

    results = read_index(rank.files)
    assert list(results) == [*dtypes, "layer"]
    for dtype in dtypes:
        value = read_value(rank.files, results[dtype])
        expected = paddle.arange(6).reshape([2, 3]).astype(dtype)
        assert (results[dtype].kind, results[dtype].format) == ("state_dict", "safetensors")
        assert value["a"].dtype == expected.dtype
        assert bool((value["a"] == expected).all())
    state = read_value(rank.files, results["layer"])
    assert results["layer"].kind == "state_dict"
    paddle.nn.Linear(2, 3).set_state_dict(state)
    assert list(state) == ["weight", "bias"]


def test_a_part_of_a_tensor_is_refused_with_what_to_do(rank: Rank) -> None:
    program = """
import os, torch, torch.distributed as dist
from torch.distributed.tensor import distribute_tensor, init_device_mesh, Shard
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=0, world_size=1)
nbdist.result(x=distribute_tensor(torch.ones(4), init_device_mesh("cpu", (1,)), [Shard(0)]))
"""
    done = rank.does(program)

    assert "result x is not stored (TypeError: it is sharded over the ranks: gather it" in done.stderr
    assert "sharded" in read_index(rank.files)["x"].problem


def test_anything_else_is_a_pickle_and_the_index_says_so(rank: Rank) -> None:
    result, value = given(
        rank, "class Mine:\n  def __init__(self): self.a = 3\nx = Mine()\nnbdist.result(x=x)"
    )

    assert (result.kind, result.type) == ("object", "Mine")
    assert result.format in ("pickle", "box")
    assert (type(value).__name__, type(value).__module__, value.a) == ("Mine", "__main__", 3)


def test_the_last_value_of_a_name_counts_and_the_ones_before_are_removed(rank: Rank) -> None:
    result, value = given(
        rank, "import os; os.umask(0)\nfor x in range(5): nbdist.result(x=x)\nnbdist.result(y=7)"
    )

    assert value == 4
    names = {path.name for path in rank.files.results.iterdir()}
    assert names == {"x.index.json", result.file, "y.index.json", read_index(rank.files)["y"].file}
    assert list(read_index(rank.files)) == ["x", "y"]
    # files are the user's alone
    assert rank.files.results.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in rank.files.results.iterdir()} == {0o600}


def test_what_cannot_be_stored_is_a_line_in_the_log_and_the_program_goes_on(rank: Rank) -> None:
    done = rank.does(
        "import threading\nnbdist.result(x=1)\nnbdist.result(x=threading.Lock(), y=2)\nprint('on')"
    )

    index = read_index(rank.files)
    assert done.stdout == "on\n"
    assert done.stderr.startswith("nbdist: result x is not stored (")
    assert "lock" in index["x"].problem
    assert read_value(rank.files, index["y"]) == 2
    # the value before is no longer the last one
    assert len(list(rank.files.results.glob("x*"))) == 1


def test_a_full_disk_costs_the_new_value_alone(rank: Rank) -> None:
    done = rank.does(
        "import resource\nnbdist.result(x='old')\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\nnbdist.result(x='new' * 100)\nprint('on')"
    )

    index = read_index(rank.files)
    assert done.stdout == "on\n"
    assert "nbdist: result x is not stored (OSError" in done.stderr
    assert read_value(rank.files, index["x"]) == "old"
    assert len(list(rank.files.results.iterdir())) == 2


def test_names_are_those_of_variables(rank: Rank) -> None:
    done = rank.does("try: nbdist.result(**{'../x': 1})\nexcept TypeError as error: print(error)")

    assert done.stdout == "nbdist.result(…): '../x' cannot be the name of a variable\n"
    assert not rank.files.results.exists()


def test_an_index_that_leads_elsewhere_is_passed_over(rank: Rank) -> None:
    rank.does("nbdist.result(x=1, y=2)")
    (rank.files.results / "x.index.json").write_text(
        '{"name": "x", "format": "json", "file": "../error.json"}'
    )
    (rank.files.results / "y.index.json").write_text("{")

    assert read_index(rank.files) == {}


def test_params_are_attributes_items_and_defaults_of_a_parser() -> None:
    params = Params(lr=0.1, width=64)
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1.0)
    parser.set_defaults(**params)

    assert (params.lr, params["width"], params.get("depth", 2)) == (0.1, 64, 2)
    assert vars(parser.parse_args([])) == {"lr": 0.1, "width": 64}
    assert json.dumps(params) == '{"lr": 0.1, "width": 64}'
    assert pickle.loads(pickle.dumps(params)) == params


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (Params(width=64), "nbdist.params has no lr: the sweep has width"),
        (Params(), "nbdist.params has no lr: this run is not of a sweep; nbdist.params.get('lr', …)"),
    ],
)
def test_a_param_that_is_not_there_is_said(params: Params, words: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(words)):
        params.lr  # noqa: B018
    with pytest.raises(KeyError, match="has no lr"):
        params["lr"]
    assert not hasattr(params, "lr")
