"""What sets an attribute that an object has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.diagnosis.clue_cells import PACKAGES
from tests.fakes.directories import Frame, WrittenRun
from tests.fakes.runs import STARTED, a_spec, errored, exited

CELL = """\
class Base(nn.Module):
    def __init__(self):
        self.width = 8

class Net(Base):
    def {constructor}(self{more}):
        self.build()
        self.pool = nn.MaxPool2d(2)

    def prepare(self):
        self.scaler = Scaler()

    def build(self):
        self.norm(self.pool)

    def forward(self, x):
        return self.pool(x)

net = Net(3)
net(x)
"""
IN_FORWARD = ((20, "<module>"), (17, "forward"))
IN_INIT = ((19, "<module>"), (7, "__init__"), (14, "build"))


@pytest.mark.parametrize(
    ("constructor", "said", "frames", "cause"),
    [
        pytest.param(
            "_init_",
            "AttributeError: 'Net' object has no attribute 'pool'",
            IN_FORWARD,
            "line 6 defines _init_() in Net, and Python calls __init__ alone",
            id="no constructor",
        ),
        pytest.param(
            "__int__",
            "TypeError: Net.__init__() takes 1 positional argument but 2 were given",
            ((19, "<module>"),),
            "line 6 defines __int__() in Net",
            id="called with more",
        ),
        pytest.param(
            "__init__",
            "TypeError: Net.__init__() takes 1 positional argument but 2 were given",
            ((19, "<module>"),),
            "Net.__init__() is called with more than it takes",
            id="a constructor",
        ),
        pytest.param(
            "__init__ takes nothing",
            "TypeError: Net.__init__() takes 1 positional argument but 2 were given",
            ((19, "<module>"),),
            "Net(…) is called with something, and its __init__ (line 6) takes nothing",
            id="a constructor without settings",
        ),
        pytest.param(
            "_init_hooks",
            "AttributeError: 'Net' object has no attribute 'pool'",
            IN_FORWARD,
            ".pool of Net is set in line 8, in _init_hooks(), and that line has not run",
            id="another method",
        ),
        pytest.param(
            "__init__",
            "AttributeError: 'Net' object has no attribute 'scaler'",
            IN_FORWARD,
            ".scaler of Net is set in line 11, in prepare()",
            id="not called",
        ),
        pytest.param(
            "__init__",
            "AttributeError: 'Net' object has no attribute 'width'",
            IN_FORWARD,
            ".width is set by Base.__init__ (line 3), which Net.__init__ does not call",
            id="of the base",
        ),
        pytest.param(
            "__init__",
            "AttributeError: 'Net' object has no attribute 'pool'",
            IN_INIT,
            "self.pool is used in __init__ of Net before line 8 sets it",
            id="too early",
        ),
        pytest.param(
            "__init__",
            "NameError: name 'pool' is not defined",
            IN_FORWARD,
            "pool is an attribute of Net (line 8), and no name by itself",
            id="without self",
        ),
        pytest.param(
            "__init__",
            "NameError: name 'F' is not defined",
            IN_FORWARD,
            "nothing sets, defines or imports F where line 17 could see it",
            id="no attribute",
        ),
        # an object that was loaded has not been through its constructor
        pytest.param(
            "__init__", "AttributeError: 'Net' object has no attribute 'pool'", IN_FORWARD, "", id="loaded"
        ),
        pytest.param(
            "__init__", "AttributeError: 'Net' object has no attribute 'head'", IN_FORWARD, "", id="nowhere"
        ),
    ],
)
def test_what_sets_a_missing_attribute_is_told(
    tmp_path: Path, constructor: str, said: str, frames: tuple[tuple[int, str], ...], cause: str
) -> None:
    name, _, nothing = constructor.partition(" ")
    cell = CELL.replace("{constructor}", name).replace("{more}", "" if nothing else ", depth")
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    kind, _, message = said.partition(": ")
    written.raised(1, kind, message, frames=[(a_spec().program, *frame, "") for frame in frames])
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    told = failure.hint.cause.en if failure.hint is not None else ""
    assert told.startswith(cause)
    assert bool(told) is bool(cause)


DATA = """\
class Digits(LightningDataModule):
    def prepare_data(self):
        self.rows = load()

    def train_dataloader(self):
        return DataLoader(self.rows)

trainer.fit(net, datamodule=Digits())
"""
_TRAINER = "/venv/site-packages/lightning/pytorch/trainer/trainer.py"


@pytest.mark.parametrize(
    ("rank", "library", "signature"),
    [
        pytest.param(1, _TRAINER, "attribute-of-prepare-data"),
        pytest.param(1, "/venv/site-packages/torch/utils/data/dataloader.py", "attribute-set-elsewhere"),
        # there it has run, and did not come to the line
        pytest.param(0, _TRAINER, "attribute-set-elsewhere"),
    ],
)
def test_what_prepare_data_sets_is_missing_on_other_ranks(
    tmp_path: Path, rank: int, library: str, signature: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=DATA).happened(*STARTED)
    program = a_spec().program
    frames = [(program, 8, "<module>", ""), (library, 583, "fit", ""), (program, 6, "train_dataloader", "")]
    written.raised(rank, "AttributeError", "'Digits' object has no attribute 'rows'", frames=frames)
    failure = diagnose(written.happened(errored(rank), exited(rank, 1)).run, written.directory)

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == signature


ROWS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        def {forward}(self, x):
            return x

class Rows(Dataset):
    def {length}(self):
        return 8

DistributedSampler(Rows())
Net()(x)
"""
LENGTH = "TypeError: object of type 'Rows' has no len()"
FORWARD = 'NotImplementedError: Module [Net] is missing the required "forward" function'


@pytest.mark.parametrize(
    ("said", "names", "cause"),
    [
        pytest.param(
            LENGTH,
            ("f", "_len_"),
            "line 8 defines _len_() in Rows, and what is looked for is __len__",
            id="len",
        ),
        pytest.param(LENGTH, ("f", "length"), "line 8 defines length() in Rows", id="length"),
        pytest.param(LENGTH, ("f", "size"), "", id="another one"),
        pytest.param(FORWARD, ("foward", "f"), "", id="within, of another name"),
        pytest.param(
            FORWARD,
            ("forward", "f"),
            "line 4 defines forward() within __init__() of Net, so the class itself has none",
            id="within",
        ),
    ],
)
def test_a_method_that_is_missing_is_told_by_what_was_meant(
    tmp_path: Path, said: str, names: tuple[str, str], cause: str
) -> None:
    cell = ROWS.replace("{forward}", names[0]).replace("{length}", names[1])
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    kind, _, message = said.partition(": ")
    written.raised(1, kind, message, frames=[(a_spec().program, 11, "<module>", "")])
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert failure is not None
    told = failure.hint.cause.en if failure.hint is not None else ""
    assert told.startswith(cause)
    assert cause or "line" not in told


ITSELF = """\
class Net(Base):
    def __init__(self):
        {first}
        self.head = wrap(self.head)
net = Net()
"""


@pytest.mark.parametrize(
    ("first", "signature"),
    [
        pytest.param("pass", "attribute-of-itself", id="out of itself"),
        pytest.param("if a: self.head = 1", "", id="set above, perhaps"),
        pytest.param("self.build()", "attribute-of-itself", id="a method that does not set it"),
    ],
)
def test_an_attribute_that_is_made_out_of_itself_is_told(tmp_path: Path, first: str, signature: str) -> None:
    cell = ITSELF.replace("{first}", first)
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    frames = [(a_spec().program, 5, "<module>", ""), (a_spec().program, 4, "__init__", "")]
    written.raised(1, "AttributeError", "'Net' object has no attribute 'head'", frames=frames)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    assert (failure.hint.signature if failure.hint is not None else "") == signature


UNCALLED = """\
class Net({0}):
    def __init__(self, width):
        {1}

run(Net(3))
"""
IN_MODULE = (f"{PACKAGES}/torch/nn/modules/module.py", 9, "_call_impl", "if self._hooks or self.training:")
IN_GETATTR = (f"{PACKAGES}/torch/nn/modules/module.py", 19, "__getattr__", "raise AttributeError(name)")
IN_TRAINER = (f"{PACKAGES}/lent/trainer.py", 90, "fit", "if model.training:")


@pytest.mark.parametrize(
    ("base", "first", "name", "inner", "told"),
    [
        pytest.param("nn.Module", "self.width = width", "training", (IN_MODULE,), True, id="of itself"),
        pytest.param(
            "nn.Module", "self.width = width", "training", (IN_MODULE, IN_GETATTR), True, id="by its method"
        ),
        pytest.param("Sampler", "self.width = width", "_hooks", (IN_TRAINER,), True, id="of its own alone"),
        pytest.param("nn.Module", "super().__init__()", "training", (IN_MODULE,), False, id="it is called"),
        pytest.param(
            "nn.Module", "nn.Module.__init__(self)", "training", (IN_MODULE,), False, id="called by its class"
        ),
        pytest.param("Dataset", "self.width = width", "training", (IN_TRAINER,), False, id="by another"),
        pytest.param("Dataset", "self.width = width", "train", (IN_MODULE,), False, id="another attribute"),
        pytest.param("", "self.width = width", "training", (IN_MODULE,), False, id="no base"),
        pytest.param("nn.Module", "self.width = width", "training", (), False, id="by the program"),
        pytest.param(
            "nn.Module",
            "self.width = width\n    def begin(self):\n        self.training = True",
            "training",
            (IN_MODULE,),
            False,
            id="the program sets it",
        ),
    ],
)
def test_a_constructor_that_does_not_call_that_of_its_base_is_told(
    tmp_path: Path, base: str, first: str, name: str, inner: tuple[Frame, ...], told: bool
) -> None:
    cell = UNCALLED.format(base, first)
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    line = next(at for at, one in enumerate(cell.splitlines(), 1) if one.startswith("run("))
    frames = [(a_spec().program, line, "<module>", ""), *inner]
    written.raised(1, "AttributeError", f"'Net' object has no attribute '{name}'", frames=frames)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)

    assert failure is not None
    cause = failure.hint.cause.en if failure.hint is not None else ""
    said = f"__init__ of Net (line 2) does not call that of {base}, which sets what the library asks for"
    assert (cause == said) is told
    assert told or "does not call" not in cause
