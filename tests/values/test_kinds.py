"""Kinds of values that notebooks hold: each goes to a rank, and comes out of one, as it was; or it is refused
in one line."""

from __future__ import annotations

import importlib
import json
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nbdist.store import RunDirectory
from nbdist.store.results import read_index, read_value
from nbdist.values import packing
from nbdist.values.packing import Unsendable
from nbdist.worker.result_files import result

ROOT = Path(__file__).parents[2]

# by what a notebook imports for them: what makes a value, and what is true of it (x) wherever it arrives
VALUES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "math": {
        "plain": ("[True, None, 10**30, 0.1, 'é\\n']", "x == [True, None, 10**30, 0.1, 'é\\n']"),
        "not a number": ("float('nan')", "x != x"),
        "complex": ("3 + 4j", "abs(x) == 5"),
        "bytes": ("bytearray(b'ab' * 4000)", "type(x) is bytearray and x[-1] == 98 and len(x) == 8000"),
        "tuples": ("(1, ('a', ()))", "x == (1, ('a', ()))"),
        "sets": ("[{1, 2}, frozenset('ab')]", "x == [{1, 2}, {'a', 'b'}] and type(x[1]) is frozenset"),
        "range, slice": ("(range(3, 9, 2), slice(1, None))", "list(x[0]) == [3, 5, 7] and x[1].start == 1"),
        "dict by other than text": ("{1: 'a', (2, 3): 'b'}", "x[(2, 3)] == 'b' and list(x) == [1, (2, 3)]"),
        "list in itself": ("(lambda made: made.append(made) or made)([1])", "x[1] is x"),
        "built-in functions": ("[len, str.upper, math.sqrt]", "x[1]('a') == 'A' and x[2](4) == 2"),
        "closure": ("(lambda n: lambda k: n + k)(40)", "x(2) == 42"),
        "error": ("ValueError('bad', 3)", "x.args == ('bad', 3)"),
        "module": ("math", "x.__name__ == 'math'"),
    },
    "collections": {
        "ordered": ("collections.OrderedDict(b=1, a=2)", "list(x) == ['b', 'a']"),
        "counts": ("collections.Counter('aab')", "x['a'] == 2 and x['z'] == 0"),
        "deque": ("collections.deque([1, 2], 5)", "x.maxlen == 5"),
    },
    "datetime": {"date": ("datetime.datetime(2026, 1, 2)", "x.isoformat() == '2026-01-02T00:00:00'")},
    "decimal": {"decimal": ("decimal.Decimal('0.10')", "str(x) == '0.10'")},
    "pathlib": {"path": ("pathlib.Path('/a/b.txt')", "x.stem == 'b'")},
    "argparse": {"arguments": ("argparse.Namespace(lr=0.1)", "x.lr == 0.1")},
    "random": {"random numbers": ("random.Random(3)", "0.23 < x.random() < 0.24")},
    "io": {"text in memory": ("io.StringIO('ab')", "x.read() == 'ab'")},
    "logging": {"logger": ("logging.getLogger('mine')", "x is __import__('logging').getLogger('mine')")},
    "functools": {"partial": ("functools.partial(int, base=2)", "x('101') == 5")},
    "operator": {"operator": ("operator.itemgetter(1)", "x('abc') == 'b'")},
    "typing": {"hint": ("typing.Optional[list[int]]", "x == __import__('typing').Optional[list[int]]")},
    "numpy": {
        "view": ("numpy.arange(6.0).reshape(2, 3)[:, ::2]", "x.tolist() == [[0, 2], [3, 5]]"),
        "by columns": ("numpy.asfortranarray(numpy.ones((40, 50)))", "x.flags.f_contiguous"),
        "without axes": ("numpy.array(5)", "x.shape == () and x == 5"),
        "of texts": ("numpy.array(['a', 'bc'])", "x.tolist() == ['a', 'bc']"),
        "of dates": ("numpy.array(['2026-01-02'], 'M8[D]')", "str(x[0]) == '2026-01-02'"),
        "of objects": ("numpy.array([{}, 1], object)", "x[1] == 1 and x.dtype.hasobject"),
        "of records": ("numpy.array([(1, 2.0)], [('a', 'i4'), ('b', 'f8')])", "x['b'][0] == 2"),
        "masked": ("numpy.ma.array([1, 2, 3], mask=[0, 1, 0])", "x.sum() == 4 and x.mask[1]"),
        "number": ("numpy.float32(0.5)", "x == 0.5 and x.dtype == 'float32'"),
        "type": ("numpy.dtype('int8')", "x.itemsize == 1"),
        "generator": ("numpy.random.default_rng(3)", "0.08 < x.random() < 0.09"),
    },
    "pandas": {
        "frame": (
            "pandas.DataFrame({'s': ['x', None], 'c': pandas.Categorical(['u', 'v'])}, index=[5, 6])",
            "x.s.isna().sum() == 1 and list(x.c.cat.categories) == ['u', 'v'] and x.loc[6, 'c'] == 'v'",
        ),
        "series": ("pandas.Series([1.0], pandas.date_range('2026', periods=1))", "x['2026-01-01'] == 1"),
    },
    "scipy.sparse": {"sparse": ("scipy.sparse.eye(50).tocsr()", "x.sum() == 50 and x.format == 'csr'")},
    "sklearn.linear_model": {
        "fitted": (
            "sklearn.linear_model.LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])",
            "abs(x.predict([[2.0]])[0] - 5) < 1e-9",
        )
    },
    "PIL.Image": {"picture": ("PIL.Image.new('RGB', (40, 30), 'red')", "x.getpixel((1, 1)) == (255, 0, 0)")},
    "torch": {
        "view": ("torch.arange(6.0)[::2]", "x.tolist() == [0, 2, 4]"),
        "without axes": ("torch.tensor(3)", "x.item() == 3 and x.shape == ()"),
        "half": ("torch.ones(3).bfloat16()", "str(x.dtype) == 'torch.bfloat16' and x.sum() == 3"),
        "gradients": ("torch.ones(2, requires_grad=True)", "x.tolist() == [1, 1]"),
        "sparse": ("torch.eye(3).to_sparse()", "x.to_dense().trace() == 3"),
        "conjugate": ("torch.tensor([1 + 2j]).conj()", "x.tolist() == [1 - 2j]"),
        "type, device, size": (
            "[torch.float16, torch.device('cpu'), torch.ones(2, 3).shape]",
            "x[0].itemsize == 2 and x[1].type == 'cpu' and tuple(x[2]) == (2, 3)",
        ),
        "random numbers": ("torch.Generator().manual_seed(3)", "x.initial_seed() == 3"),
        "loader": ("torch.utils.data.DataLoader(torch.arange(8.0), 4)", "sum(b.sum() for b in x) == 28"),
        "data set": ("torch.utils.data.TensorDataset(torch.ones(4))", "len(x) == 4"),
        "schedule": (
            "torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(1)], 0.5), 2)",
            "x.get_last_lr() == [0.5]",
        ),
    },
    "jax": {"array": ("jax.numpy.arange(3.0)", "x.sum() == 3")},
    "tokenizers": {
        "tokenizer": (
            "tokenizers.Tokenizer(tokenizers.models.WordLevel({'a': 0, '?': 1}, unk_token='?'))",
            "x.encode('a').ids == [0]",
        )
    },
}

DEFINITIONS = """
import abc, collections, contextlib, dataclasses, enum, functools, re, typing
class Options(typing.TypedDict, total=False):
    lr: float
class More(Options):
    name: str
UserId = typing.NewType("UserId", int)
T = typing.TypeVar("T")
class Box(typing.Generic[T]):
    def __init__(self, v: T): self.v = v
class HasArea(typing.Protocol):
    def area(self) -> float: ...
@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    lr: float = 0.1
    inner: "Config | None" = None
class Pair(typing.NamedTuple):
    a: int
    b: str = "x"
    def both(self): return f"{self.a}{self.b}"
class Mode(str, enum.Enum):
    FAST = "fast"
class Level(enum.IntEnum):
    LOW = enum.auto()
    HIGH = enum.auto()
class Lazy:
    @functools.cached_property
    def value(self): return Level.HIGH + 3
@contextlib.contextmanager
def opened(): yield 4
class Named:
    def __set_name__(self, owner, name): self.name = name
    def __get__(self, instance, owner=None): return self.name
class WithNamed:
    field = Named()
class Registered:
    def __init_subclass__(cls, tag="none", **more): super().__init_subclass__(**more); cls.tag = tag
class Tagged(Registered, tag="two"): pass
class Outer:
    class Inner:
        value = 1
    inner = Inner()
class Defaults(dict):
    def __missing__(self, key): return key * 2
class Steps:
    def __init__(self): self.at = 0
    def __iter__(self): return self
    def __next__(self): self.at += 1; return self.at
class First:
    def f(self): return "A"
class Second(First):
    def f(self): return super().f() + "B"
class Flag(enum.IntFlag):
    A = 1
    B = 2
class Base(abc.ABC):
    @abc.abstractmethod
    def f(self): ...
    @property
    def double(self): return 2 * self.f()
class Sub(Base):
    def __init__(self, v=1): super().__init__(); self.v = v
    def f(self): return self.v
    @staticmethod
    def s(): return Sub(5).f()
    @classmethod
    def c(cls): return cls(7)
class Slots:
    __slots__ = ("a",)
    def __init__(self): self.a = 3
class Meta(type):
    def __call__(cls, *a):
        made = super().__call__(*a); made.meta = True; return made
class WithMeta(metaclass=Meta): pass
class Oops(Exception):
    def __init__(self, code): super().__init__(f"code {code}"); self.code = code
def counter():
    n = 0
    def add(k=1):
        nonlocal n
        n += k
        return n
    return add
def logged(f):
    @functools.wraps(f)
    def inner(*a): return ("logged", f(*a))
    return inner
@logged
def decorated(x): return x + 1
@functools.lru_cache
def cached(x): return x * 2
def even(n): return True if n == 0 else odd(n - 1)
def odd(n): return False if n == 0 else even(n - 1)
async def coroutine(): return 5
def count(n): yield from range(n)
def called(a, /, b, *, c: "Config" = Config(), **d) -> "Box[int]": return (a, b, c, d)
lazy = Lazy(); lazy.value
steps = Steps(); next(steps)
defaults = Defaults(a=1)
outer = Outer()
sub, slots, meta, oops, add = Sub(4), Slots(), WithMeta(), Oops(3), counter()
add(4); bound = sub.f; pattern = re.compile("a+")
table = collections.defaultdict(list, a=[1]); table["self"] = table
"""
DEFINED = {
    "Options": "Options.__total__ is False and Options(lr=1) == {'lr': 1}",
    "More": "More.__required_keys__ == {'name'} and More.__optional_keys__ == {'lr'}",
    "UserId": "UserId(3) == 3 and UserId.__name__ == 'UserId'",
    "Box": "Box[int](3).v == 3",
    "HasArea": "HasArea.__name__ == 'HasArea'",
    "Config": "Config(0.5, Config()).inner.lr == 0.1 and Config() == Config()",
    "Pair": "Pair(2).both() == '2x' and Pair(1)._replace(a=3) == (3, 'x')",
    "Mode": "Mode('fast') is Mode.FAST",
    "Level": "Level.HIGH == 2 and Level(1) is Level.LOW",
    "Lazy": "Lazy().value == 5",
    "lazy": "lazy.value == 5 and type(lazy)().value == 5",
    "opened": "opened().__enter__() == 4",
    "WithNamed": "WithNamed().field == 'field'",
    "Tagged": "Tagged.tag == 'two'",
    "outer": "outer.inner.value == 1 and type(outer).Inner.value == 1",
    "defaults": "defaults['a'] == 1 and defaults['b'] == 'bb'",
    "steps": "next(steps) == 2",
    "Second": "Second().f() == 'AB'",
    "Flag": "Flag.A | Flag.B == 3 and isinstance(Flag.A | Flag.B, Flag)",
    "Base": "__import__('inspect').isabstract(Base)",
    "Sub": "Sub.s() == 5 and Sub.c().v == 7 and issubclass(Sub, Base)",
    "sub": "isinstance(sub, Base) and sub.double == 8",
    "bound": "bound() == 4",
    "slots": "slots.a == 3 and not hasattr(slots, '__dict__')",
    "WithMeta": "type(WithMeta) is Meta and WithMeta().meta",
    "meta": "meta.meta",
    "oops": "oops.code == 3 and type(oops) is Oops",
    "add": "add() == 5",
    "decorated": "decorated(1) == ('logged', 2)",
    "cached": "cached(4) == 8 and cached.cache_info().misses == 1",
    "even": "even(10)",
    "coroutine": "__import__('asyncio').run(coroutine()) == 5",
    "pattern": "pattern.match('aa')",
    "table": "table['self'] is table and table['b'] == []",
    "count": "list(count(3)) == [0, 1, 2]",
    "called": "called(1, 2, z=3)[3] == {'z': 3} and called(1, 2)[2].lr == 0.1",
}

SHOW = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
from nbdist.values import box
namespace = {"__name__": "__main__"}
values = box.read(sys.argv[2], namespace)
namespace.update(values)
claims = json.loads(sys.argv[3])
print([name for name, claim in claims.items() if not eval(claim, {**namespace, "x": values[name]})])
"""


def wrong_there(path: Path, claims: Mapping[str, str]) -> list[str]:
    """Return the names of a box whose claims are false in a process of its own."""
    command = [sys.executable, "-c", SHOW, str(ROOT), str(path), json.dumps(claims)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    wrong: list[str] = eval(done.stdout)
    return wrong


@pytest.mark.parametrize("package", VALUES)
@pytest.mark.filterwarnings("ignore")  # the packages' own
def test_values_go_in_and_come_out_as_they_were(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    files = RunDirectory(tmp_path / "run").rank(0)
    files.path.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("NBDIST_RANK_DIR", str(files.path))
    own = package.partition(".")[0]
    space = {"__name__": "__main__", own: importlib.import_module(own)}
    names = {f"x{number}": kind for number, kind in enumerate(VALUES[package])}
    claims = {name: VALUES[package][kind][1] for name, kind in names.items()}
    values = {name: eval(VALUES[package][kind][0], space) for name, kind in names.items()}

    packing.pack(values).write(tmp_path / "x.box")
    result(**values)

    assert [names[name] for name in wrong_there(tmp_path / "x.box", claims)] == []
    index = read_index(files)
    assert [names[name] for name in claims if index[name].problem] == []
    given = {name: read_value(files, index[name]) for name in claims}
    assert [names[name] for name, claim in claims.items() if not eval(claim, {"x": given[name]})] == []


def test_what_a_notebook_defines_goes_in_as_it_was(tmp_path: Path) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(DEFINITIONS, "/tmp/ipykernel_1/2.py", "exec"), space)

    values = {name: space[name] for name in DEFINED}
    packing.pack(values, namespace=space).write(tmp_path / "x.box")

    assert wrong_there(tmp_path / "x.box", DEFINED) == []


NO_VALUES = """
import concurrent.futures, functools, queue, re, socket, sqlite3, sys, threading, weakref
@functools.singledispatch
def chosen(x): pass
"""
REFUSED = [
    pytest.param("sys.__stdout__", "is an open file, which cannot be sent: push its path", id="file"),
    pytest.param("{'a': [sys.__stdout__]}", "holds an open file", id="file within"),
    pytest.param("threading.Lock()", "is a lock", id="lock"),
    pytest.param("threading.Event()", "is a lock", id="event"),
    pytest.param("queue.Queue()", "is a queue", id="queue"),
    pytest.param("(n for n in range(3))", "is a generator", id="generator"),
    pytest.param("socket.socket()", "is a connection", id="socket"),
    pytest.param("sqlite3.connect(':memory:')", "is a connection to a database", id="database"),
    pytest.param("threading.Thread()", "is a thread or a process", id="thread"),
    pytest.param("concurrent.futures.ThreadPoolExecutor()", "is a thread or a process", id="executor"),
    pytest.param("sys._getframe()", "cannot be sent", id="frame"),
    pytest.param("weakref.ref(threading)", "cannot be sent", id="weak reference"),
    pytest.param("re.match('a', 'a')", "cannot be sent", id="match"),
    pytest.param("chosen", "cannot be sent", id="single dispatch"),
]


@pytest.mark.parametrize(("source", "words"), REFUSED)
def test_what_cannot_be_sent_is_refused_in_one_line(source: str, words: str) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(NO_VALUES, space)
    value = eval(source, space)

    with pytest.raises(Unsendable) as caught:
        packing.pack({"x": value}, namespace=space)

    if isinstance(value, (socket.socket, sqlite3.Connection)):
        value.close()
    assert f"x ({type(value).__name__}) {words}" in str(caught.value)
    assert "\n" not in str(caught.value)


OF_TORCH = """
import torch, torch.distributed as dist
store = dist.HashStore()
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
values = {
    "group": dist.group.WORLD,
    "store": store,
    "model": torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1)),
    "batches": iter(torch.utils.data.DataLoader([1, 2])),
}
from nbdist.values import packing
for name, value in values.items():
    try:
        packing.pack({"x": value})
        print(name, "is sent")
    except packing.Unsendable as error:
        print(name, str(error).partition(") ")[2])
dist.destroy_process_group()
"""


def test_what_torch_has_for_one_process_is_refused() -> None:
    pytest.importorskip("torch")
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{OF_TORCH}"

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=100
    )

    assert [line.partition(", which")[0] for line in done.stdout.splitlines()] == [
        "group is a process group",
        "store is a process group",
        "model is a model that is wrapped for a process group",
        "batches is the iterator of a DataLoader",
    ], done.stderr
