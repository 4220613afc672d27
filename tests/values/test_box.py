"""Boxes: what is written comes back, as it was, in another process."""

from __future__ import annotations

import functools
import linecache
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from nbdist.values import box, packing
from nbdist.values.packing import Unsendable

ROOT = Path(__file__).parents[2]


def notebook(source: str) -> dict[str, object]:
    """Return the namespace of a notebook that has run ``source``."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(compile(source, "/tmp/ipykernel_1/2.py", "exec"), namespace)
    return namespace


def write(path: Path, values: Mapping[str, object]) -> None:
    packing.pack(values).write(path)


def python(program: str, *arguments: object) -> str:
    """Return the output of a process of its own, whose ``__main__`` is made as a rank's is."""
    whole = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from nbdist.values import box\n{program}"
    command = [sys.executable, "-W", "ignore", "-c", whole, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_index_is_read_without_unpickling(tmp_path: Path) -> None:
    events: list[str] = []
    write(tmp_path / "x.box", {"a": np.arange(10_000), "n": Path("/x")})
    watching = [True]
    sys.addaudithook(lambda event, _: events.append(event) if watching and "pickle" in event else None)

    contents = box.contents(tmp_path / "x.box")

    watching.clear()
    assert [(item.name, item.type) for item in contents.items] == [("a", "ndarray"), ("n", "PosixPath")]
    assert contents.items[0].size >= 80_000
    assert contents.packages == ("numpy",)
    assert not events


def test_a_number_is_told_and_other_data_has_a_digest_of_all_its_bytes() -> None:
    def described(**values: object) -> list[tuple[str, str]]:
        return [(item.value, item.digest) for item in packing.pack(values).items]

    data = np.arange(10_000)
    (number, (_, before)) = described(lr=np.float64(0.1), data=data)
    data[9_999] = 0
    (_, (_, after)) = described(lr=0.1, data=data)

    assert number == ("0.1", "")
    assert len(before) == 8
    assert before != after
    assert described(data=data) == described(data=data.copy()) == [("", after)]
    assert described(Path=Path, on=True) == [("", ""), ("True", "")]


def test_only_this_user_may_read_it_and_no_draft_stays(tmp_path: Path) -> None:
    write(tmp_path / "x.box", {"a": 1})

    assert os.listdir(tmp_path) == ["x.box"]
    assert stat.S_IMODE(os.stat(tmp_path / "x.box").st_mode) == 0o600


def test_what_cannot_be_sent_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(Unsendable):
        write(tmp_path / "x.box", {"a": np.ones(10_000), "lock": threading.Lock()})

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kept", [0, 7, 24, 4000])
def test_a_part_of_a_box_is_none(tmp_path: Path, kept: int) -> None:
    write(tmp_path / "x.box", {"a": np.ones(10_000)})
    os.truncate(tmp_path / "x.box", kept)

    for look in (box.contents, box.read):
        with pytest.raises((box.BadBox, ValueError)):
            look(tmp_path / "x.box")


def test_two_names_of_one_object_stay_so(tmp_path: Path) -> None:
    array = np.zeros(10_000)
    small = [1, 2]

    write(tmp_path / "x.box", {"a": array, "b": array, "c": small, "d": {"c": small}})
    values = box.read(tmp_path / "x.box")

    assert values["a"] is values["b"]
    assert values["d"]["c"] is values["c"]
    assert os.path.getsize(tmp_path / "x.box") < 2 * array.nbytes


def test_buffers_are_aligned_and_writing_to_them_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "x.box", {"odd": np.ones(1001, np.uint8), "a": np.ones(10_001), "b": np.ones(7)})
    first, second = box.read(tmp_path / "x.box"), box.read(tmp_path / "x.box")

    first["a"][:] = 5
    first["b"][:] = 5

    assert second["a"][0] == 1
    assert first["a"].ctypes.data % box.ALIGNMENT == 0
    assert box.read(tmp_path / "x.box")["a"].sum() == 10_001


def test_views_of_a_tensor_stay_views_and_parameters_parameters(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    whole = torch.arange(10_000.0)
    net = torch.nn.Linear(100, 100)
    net.tied = net.weight
    values = {"whole": whole, "view": whole[2:8:2], "net": net, "half": torch.ones(3000).bfloat16()}

    write(tmp_path / "x.box", {**values, "empty": torch.empty(0), "w": torch.ones(9, requires_grad=True)})
    read = box.read(tmp_path / "x.box")

    read["whole"][4] = -1
    assert read["view"].tolist() == [2, -1, 6]
    assert read["net"].tied is read["net"].weight
    assert isinstance(read["net"].weight, torch.nn.Parameter)
    assert torch.equal(read["net"].weight, net.weight)
    assert read["half"].dtype is torch.bfloat16
    assert read["empty"].shape == (0,)
    assert read["w"].requires_grad
    assert whole[4] == 4


def test_paddle_s_layers_keep_the_names_of_their_parameters(tmp_path: Path) -> None:
    output = python(
        "import paddle; from pathlib import Path; from nbdist.values import packing\n"
        "net = paddle.nn.Linear(40, 40); at = Path(sys.argv[1])\n"
        "half = paddle.ones([2000]).astype('bfloat16')\n"
        "values = {'net': net, 'half': half, 'x': paddle.ones([2]), 'sum': float(net.weight.sum())}\n"
        "packing.pack(values).write(at)\n"
        "print(net.weight.name, net.weight.stop_gradient)",
        tmp_path / "x.box",
    )

    again = python(
        "v = box.read(sys.argv[1]); import paddle; net = v['net']\n"
        "assert isinstance(net.weight, paddle.base.framework.EagerParamBase) and len(net.parameters()) == 2\n"
        "assert abs(float(net.weight.sum()) - v['sum']) < 1e-6 and v['x'].stop_gradient\n"
        "assert v['half'].dtype is paddle.bfloat16 and float(v['half'].astype('float32').sum()) == 2000\n"
        "net(paddle.ones([1, 40])).sum().backward(); assert net.weight.grad is not None\n"
        "assert paddle.nn.Linear(2, 2).weight.name != net.weight.name\n"
        "print(net.weight.name, net.weight.stop_gradient)",
        tmp_path / "x.box",
    )

    assert again.splitlines()[-1] == output.splitlines()[-1]


FUNCTIONS = """
from functools import lru_cache
SCALE = 3
def helper(x): return x * SCALE
@lru_cache(maxsize=8)
def cached(x): return helper(x) + 1
class Base:
    def twice(self): return helper(self.x)
class Net(Base):
    def __init__(self, x): self.x = x
"""


def test_functions_see_the_reader_s_namespace_as_theirs(tmp_path: Path) -> None:
    space = notebook(FUNCTIONS)
    names = {"helper": space["helper"], "cached": space["cached"]}
    packing.pack(names, namespace=space).write(tmp_path / "x.box")

    output = python(
        "globals().update(box.read(sys.argv[1], globals())); print(helper(2), cached(2))\n"
        "SCALE = 5; print(helper(2), __builtins__.__name__)",
        tmp_path / "x.box",
    )

    assert output.split() == ["6", "7", "10", "builtins"]


def test_what_a_definition_uses_comes_along_under_its_name(tmp_path: Path) -> None:
    space = notebook(FUNCTIONS)

    packing.pack({"net": space["Net"](4)}, namespace=space).write(tmp_path / "x.box")

    items = box.contents(tmp_path / "x.box").items
    assert {item.name for item in items if not item.asked} == {"Net", "Base", "helper", "SCALE"}
    output = python(
        "import pickle; globals().update(box.read(sys.argv[1], globals()))\n"
        "print(net.twice(), type(net) is Net, type(pickle.loads(pickle.dumps(Base()))) is Base)",
        tmp_path / "x.box",
    )
    assert output == "12 True True"


def test_the_data_that_a_call_uses_come_before_it_with_their_size(tmp_path: Path) -> None:
    space = notebook("def first(n): return data[n] * helper()\ndef helper(): return 2")
    space["data"] = np.ones(10_000)

    packed = packing.pack({"call": functools.partial(space["first"], 3)}, namespace=space)

    sizes = {item.name: item.size for item in packed.items}
    assert len(packed.pickles) < 5000, "the array stays where it is until it is written"
    assert list(sizes) == ["data", "helper", "first", "call"]
    assert sizes["data"] > 80_000 > 1000 > sizes["call"]


def test_a_class_that_comes_back_is_the_same_and_keeps_its_methods(tmp_path: Path) -> None:
    space = notebook(FUNCTIONS)
    net = space["Net"]
    method = net.__init__
    packing.pack({"net": net(4)}, namespace=space).write(tmp_path / "in.box")

    python(
        "from nbdist.values import packing; from pathlib import Path\n"
        "class Mine: pass\n"
        "read = box.read(sys.argv[1], globals()); net = read['net']; net.x = 7\n"
        "class Sub(type(net)): pass\n"
        "packing.pack({'net': net, 'sub': Sub(1), 'mine': Mine()}).write(Path(sys.argv[2]))",
        tmp_path / "in.box",
        tmp_path / "out.box",
    )
    values = box.read(tmp_path / "out.box")

    assert type(values["net"]) is net
    assert values["net"].x == 7
    assert isinstance(values["sub"], net)
    assert net.__init__ is method
    assert values["net"].twice() == 21


def test_the_source_of_functions_and_classes_goes_along_under_their_title(tmp_path: Path) -> None:
    parts = {
        "fail": "def fail(x):\n    return x / 0\n",
        "Net": "class Net:\n    def forward(self): return 1\n    class Inner: pass\n",
        "Config": "@dataclass\nclass Config:\n    rate: float = 0.1\n",
    }
    source = "from dataclasses import dataclass\n" + "".join(parts.values())
    space = notebook(source)
    # a method tells its cell; a class without methods is of the latest cell that defines it
    for number, text in (1, "class Config: pass"), (2, source), (3, "class Net: pass\nclass Configs: pass"):
        linecache.cache[f"/tmp/ipykernel_1/{number}.py"] = (9, None, text.splitlines(True), "")

    packed = packing.pack({key: space[key] for key in parts}, title=lambda name: name.removeprefix("/tmp/"))
    packed.write(tmp_path / "x.box")

    assert box.contents(tmp_path / "x.box").sources == {"ipykernel_1/2.py": source}
    program = "box.bring(sys.argv[1], globals()); import inspect; print([*map(inspect.getsource, (%s))])"
    seen = python(program % "fail, Net, Config, Net.Inner", tmp_path / "x.box")
    assert seen == str([*parts.values(), "    class Inner: pass\n"])


def test_values_of_the_standard_library_need_nothing_but_it(tmp_path: Path) -> None:
    write(tmp_path / "x.box", {"cfg": {"lr": 0.1}, "path": Path("/a")})

    output = python(
        "box.read(sys.argv[1]); print({'cloudpickle', 'numpy', 'tomllib'} & sys.modules.keys())",
        tmp_path / "x.box",
    )

    assert output == "set()"


def test_pickles_that_become_too_large_are_refused_with_the_sizes() -> None:
    with pytest.raises(packing.TooLarge) as caught:
        packing.pack({"small": 1, "large": ["x" * 1000 + str(n) for n in range(1000)]}, most=100_000)

    assert [item.name for item in caught.value.items] == ["small", "large"]


@pytest.mark.parametrize(
    "large",
    [
        pytest.param(bytes(200_000), id="bytes"),
        pytest.param(bytearray(200_000), id="a bytearray"),
        pytest.param(memoryview(bytes(200_000)), id="a memoryview"),
        pytest.param("x" * 200_000, id="a text"),
        pytest.param([np.zeros(100_000, np.uint8), bytes(100_000)], id="an array and bytes"),
    ],
)
def test_what_comes_in_one_piece_is_refused_with_its_whole_size(large: object) -> None:
    with pytest.raises(packing.TooLarge) as caught:
        packing.pack({"small": 1, "large": large}, most=50_000)

    assert [item.name for item in caught.value.items] == ["small", "large"]
    assert 200_000 <= caught.value.items[1].size < 201_000


class _Explodes:
    def __reduce__(self) -> tuple[object, ...]:
        return (int, ("no number",))


def test_a_value_that_cannot_be_made_names_itself(tmp_path: Path) -> None:
    write(tmp_path / "x.box", {"fine": 1, "bad": _Explodes()})

    with pytest.raises(box.CannotRead, match=r"^bad \(_Explodes\) cannot be made here: ValueError"):
        box.read(tmp_path / "x.box")
