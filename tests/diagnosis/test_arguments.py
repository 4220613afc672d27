"""What a diagnosis says of a library that was given what it does not take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from nbdist.diagnosis.rank_failure import Failure
from tests.diagnosis.clue_cells import PACKAGES
from tests.fakes.directories import Frame, WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

CELL = """\
BATCH_SIZE = 16
loader = DataLoader(data, BATCH_SIZE)
other = Reader(
    rows,
    size=text)
loader.run(kind)
loss = criterion(out, labels.tolist())
fit(Rows, scale(Rows, 2), lr)
one, two = Twice(a), Twice(b)
"""
PROGRAM = a_spec().program
ALL = "self data shuffle batch_size"
Given = tuple[str, int, str, str, int, str, str, str, bool]


def at(line: int, of: str, name: str, place: int, what: str, takes: str) -> Given:
    return PROGRAM if line else "", line, of, name, place, what, takes, ALL, True


def failed(
    folder: Path,
    kind: str,
    message: str,
    *given: Given,
    line: int = 2,
    cell: str = CELL,
    frames: Sequence[Frame] = (),
    **more: object,
) -> Failure:
    written = WrittenRun(folder / "home", cell=cell).happened(*STARTED)
    frames = frames or [(PROGRAM, line, "<module>", ""), (f"{PACKAGES}/lent/load.py", 9, "run", "x = y")]
    written.raised(1, kind, message, frames=frames, time=CREATED + 5, arguments=given, **more)
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    return failure


def cause_of(failure: Failure) -> str:
    return failure.hint.cause.en if failure.hint is not None else ""


def notes_of(failure: Failure) -> list[str]:
    return [note.en for note in failure.notes]


NOTHING = "nothing that is known"

CAUSES = [
    pytest.param(
        at(2, "DataLoader", "shuffle", 1, "16", "bool | None"),
        "BATCH_SIZE (16) stands in the place of shuffle in DataLoader(…) in line 2, and shuffle takes bool",
        "name what you give:  DataLoader(…, batch_size=BATCH_SIZE)",
        id="the place of another",
    ),
    pytest.param(
        at(2, "DataLoader", "data", 0, "ndarray (3, 4) float64", "Dataset[T]"),
        "data of DataLoader takes Dataset[T], and got data (ndarray (3, 4) float64) in line 2: each row",
        "a dataset of inputs and labels:  TensorDataset(data, labels)",
        id="an array for a dataset",
    ),
    pytest.param(
        at(2, "DataLoader", "data", 0, "ndarray (3, 4) float64", "Tensor"),
        "data of DataLoader takes Tensor, and got data (ndarray (3, 4) float64) in line 2",
        "torch.as_tensor(data)  first",
        id="an array for a tensor",
    ),
    pytest.param(
        at(2, "DataLoader", "data", 0, "the class Rows", "Dataset"),
        "data of DataLoader takes an object, and got data (the class Rows) itself in line 2",
        "make one:  data(…)",
        id="a class",
    ),
    pytest.param(
        at(3, "Reader", "size", 1, "str of 2 characters", "int"),
        "size of Reader takes int, and got text (str of 2 characters) in line 3: a text",
        "int(text)",
        id="a text for a number",
    ),
    pytest.param(
        at(0, "Reader", "size", 1, "str of 2 characters", "int"),
        "size of Reader takes int, and got text (str of 2 characters) in line 3: a text",
        "int(text)",
        id="when an object was made",
    ),
    pytest.param(
        at(2, "DataLoader", "data", 0, "str of 9 characters", "Mapping[str, int]"),
        "data of DataLoader takes Mapping[str, int], and got data (str of 9 characters) in line 2: the path",
        "load it first:  torch.load(data)",
        id="a path",
    ),
    pytest.param(
        at(2, "DataLoader", "data", 0, "str of 9 characters", "list[int]"),
        "data of DataLoader takes list[int], and got data (str of 9 characters) in line 2",
        "give it that",
        id="a text for numbers",
    ),
]


@pytest.mark.parametrize(("given", "cause", "fix"), CAUSES)
def test_what_does_not_fit_is_the_cause_where_nothing_else_is_known(
    given: Given, cause: str, fix: str, tmp_path: Path
) -> None:
    failure = failed(tmp_path, "RuntimeError", NOTHING, given)

    assert cause_of(failure).startswith(cause)
    assert failure.hint is not None
    assert failure.hint.fix.en.startswith(fix)
    assert "takes" not in "".join(notes_of(failure))


NONE = at(2, "DataLoader", "data", 0, "None", "Dataset")
LIST = at(2, "DataLoader", "data", 0, "list of 3", "Model")


@pytest.mark.parametrize(
    ("given", "kind", "message", "is_cause"),
    [
        pytest.param(LIST, "RuntimeError", NOTHING, False, id="a list may pass"),
        pytest.param(LIST, "TypeError", "a list has no such thing", True, id="unless it is named"),
        pytest.param(NONE, "RuntimeError", NOTHING, False, id="None may be left out"),
        pytest.param(NONE, "TypeError", "object of NoneType is odd", True, id="unless it is named, too"),
        pytest.param(
            at(2, "DataLoader", "size", 3, "3", "Model | int"), "RuntimeError", NOTHING, False, id="a number"
        ),
        pytest.param(
            at(2, "DataLoader", "data", 0, "3", "float"),
            "IndexError",
            "index 3 is out of bounds for axis 0 with size 3",
            False,
            id="the same number by chance",
        ),
        pytest.param(
            at(2, "DataLoader", "data", 0, "the class Rows", "Dataset"),
            "IndexError",
            "list index out of range, the end",
            False,
            id="a word of ours",
        ),
        pytest.param(
            at(2, "DataLoader", "data", 0, "ndarray (3,) float64", "Tensor"),
            "IndexError",
            "list index out of range",
            False,
            id="words of Python that do not name it",
        ),
        pytest.param(
            at(0, "Trainer", "data", 0, "3", "Tensor"), "RuntimeError", NOTHING, False, id="no call of it"
        ),
    ],
)
def test_what_may_pass_is_the_cause_where_it_is_named_alone(
    given: Given, kind: str, message: str, is_cause: bool, tmp_path: Path
) -> None:
    failure = failed(tmp_path, kind, message, given)

    signature = failure.hint.signature if failure.hint is not None else ""
    assert signature.startswith("argument-") is is_cause


def test_beside_another_cause_it_is_a_fact(tmp_path: Path) -> None:
    failure = failed(tmp_path, "IndexError", "list index out of range", NONE)

    assert not cause_of(failure).startswith("data of")
    assert notes_of(failure) == ["data of DataLoader takes Dataset, and got data (None) in line 2"]


def test_what_left_the_program_by_another_error_is_not_told(tmp_path: Path) -> None:
    text = "Traceback (most recent call last):\nValueError: first\n"
    failure = failed(tmp_path, "RuntimeError", NOTHING, at(0, "Trainer", "data", 0, "3", "Tensor"), text=text)

    assert cause_of(failure) == ""
    assert notes_of(failure) == []


def test_what_a_message_calls_a_number_or_a_class_counts(tmp_path: Path) -> None:
    number = at(2, "DataLoader", "data", 0, "3", "Model")
    kind = at(2, "DataLoader", "data", 0, "the class Rows", "Dataset")

    said = failed(tmp_path / "1", "TypeError", "'int' object is odd", number)
    also = failed(tmp_path / "2", "TypeError", "Rows is odd", kind)

    assert cause_of(said).startswith("data of DataLoader takes Model, and got data (3)")
    assert cause_of(also).startswith("data of DataLoader takes an object")


def test_a_layer_that_has_trained_is_told(tmp_path: Path) -> None:
    failure = failed(tmp_path, "RuntimeError", NOTHING, refused=("Linear", 4, 7))

    assert cause_of(failure).startswith("Linear trained with 4 features (or channels) and gets 7 now")


@pytest.mark.parametrize(
    ("names", "near", "note"),
    [
        pytest.param(
            ("Train.csv", "test.csv"),
            "there is no data/train.csv: /home/data has Train.csv",
            "",
            id="a capital",
        ),
        pytest.param(("a.txt", "b.txt"), "", "/home/data has a.txt, b.txt, and 3 more", id="other files"),
        pytest.param((), "", "/home/data is empty", id="nothing"),
    ],
)
def test_what_a_folder_has_where_a_file_is_missing_is_told(
    names: tuple[str, ...], near: str, note: str, tmp_path: Path
) -> None:
    message = "[Errno 2] No such file or directory: 'data/train.csv'"
    folder = ("data/train.csv", "/home/data", names, 5 if names else 0)

    failure = failed(tmp_path, "FileNotFoundError", message, folders=[folder])

    assert cause_of(failure).startswith(near or cause_of(failure))
    assert (failure.hint is not None and failure.hint.signature == "file-named-nearly") is bool(near)
    assert notes_of(failure) == ([note] if note else [])


@pytest.mark.parametrize(
    ("names", "is_told"),
    [
        pytest.param(("worker_0/",), True, id="of rank 0"),
        pytest.param(("worker_2/", "worker_10/"), False, id="of others"),
    ],
)
def test_a_path_of_each_rank_that_rank_0_alone_has_made_is_told(
    names: tuple[str, ...], is_told: bool, tmp_path: Path
) -> None:
    message = "[Errno 2] No such file or directory: '/home/out/worker_1/net.pt'"
    folder = ("/home/out/worker_1/net.pt", "/home/out", names, len(names))

    failure = failed(tmp_path, "FileNotFoundError", message, folders=[folder])

    assert (failure.hint is not None and failure.hint.signature == "file-of-rank-0") is is_told


def test_a_file_of_another_number_is_not_the_same(tmp_path: Path) -> None:
    message = "[Errno 2] No such file or directory: 'data/part-12.csv'"
    folder = ("data/part-12.csv", "/home/data", ("part-11.csv", "part-10.csv"), 2)

    failure = failed(tmp_path, "FileNotFoundError", message, folders=[folder])

    assert failure.hint is None or failure.hint.signature != "file-named-nearly"


def test_what_the_line_of_a_library_had_is_told_where_nothing_is_known(tmp_path: Path) -> None:
    inside = [(f"{PACKAGES}/lent/load.py", 9, "y", "Tensor (3, 4) float32")]

    failure = failed(tmp_path / "1", "RuntimeError", NOTHING, inside=inside)
    known = failed(tmp_path / "2", "RuntimeError", NOTHING, inside=inside, refused=("Linear", 4, 7))

    assert [note for note in notes_of(failure) if "load.py line 9 had y" in note]
    assert notes_of(known) == []


OUT = at(7, "CrossEntropyLoss", "target", 1, "list of 3", "")
MISSED = "label() must be Tensor, not list, as the second of its words"


@pytest.mark.parametrize(
    ("given", "message", "cause", "fix"),
    [
        pytest.param(
            OUT,
            MISSED,
            "CrossEntropyLoss was given labels.tolist() (list of 3) as target in line 7: .tolist() has made",
            "give it  labels  itself, without .tolist()",
            id="what a call has made of it",
        ),
        pytest.param(
            (*OUT[:-1], False),
            MISSED,
            "CrossEntropyLoss was given labels.tolist() (list of 3) as target in line 7: .tolist() has made",
            "give it  labels  itself, without .tolist()",
            id="which the line itself shows",
        ),
        pytest.param(
            at(2, "DataLoader", "data", 0, "list of 3", ""),
            MISSED,
            "DataLoader was given data (list of 3) as data in line 2, and its code works with something else",
            "see what it takes:  help(DataLoader)",
            id="what was given as it is",
        ),
        pytest.param(
            at(8, "fit", "data", 0, "the class Rows", ""),
            "'type' object is odd",
            "data of fit takes an object, and got Rows (the class Rows) itself in line 8",
            "make one:  Rows(…)",
            id="a class",
        ),
        pytest.param(
            at(0, "Twice", "data", 0, "dict of 2", ""),
            "'dict' object is odd",
            "",
            "",
            id="one of two calls, which is not known",
        ),
        pytest.param(
            at(2, "DataLoader", "mode", 5, "str of 4 characters", ""),
            "'str' object is odd",
            "",
            "",
            id="a default",
        ),
        pytest.param(
            (*at(2, "DataLoader", "data", 0, "list of 3", "")[:-1], False), MISSED, "", "", id="not sure"
        ),
        pytest.param(
            (*at(8, "fit", "data", 0, "the class Rows", "")[:-1], False),
            "'type' object is odd",
            "",
            "",
            id="a class that the library may have set",
        ),
        pytest.param(
            at(0, "Trainer", "data", 0, "list of 3", ""), MISSED, "", "", id="no call of it in the program"
        ),
    ],
)
def test_what_an_error_complains_of_is_the_cause_where_the_program_gives_it(
    given: Given, message: str, cause: str, fix: str, tmp_path: Path
) -> None:
    failure = failed(tmp_path, "TypeError", message, given)

    assert cause_of(failure).startswith(cause)
    assert cause or "given" not in cause_of(failure) + "".join(notes_of(failure))
    assert failure.hint is None or failure.hint.fix.en.startswith(fix)


@pytest.mark.parametrize(
    ("given", "note"),
    [
        pytest.param(
            at(2, "DataLoader", "data", 0, "str of 3 characters", ""),
            "line 2 gives data (str of 3 characters) to DataLoader as data",
            id="what was given",
        ),
        pytest.param(
            (*at(2, "DataLoader", "data", 0, "str of 3 characters", "")[:-1], False), "", id="not sure"
        ),
        pytest.param(at(2, "DataLoader", "mode", 5, "str of 3 characters", ""), "", id="a default"),
    ],
)
def test_beside_another_cause_it_is_told_what_was_given(given: Given, note: str, tmp_path: Path) -> None:
    failure = failed(tmp_path, "IndexError", "list index out of range", given)

    assert failure.hint is not None
    assert not failure.hint.signature.startswith("argument-")
    assert notes_of(failure) == ([note] if note else [])


@pytest.mark.parametrize(
    ("given", "line", "cause", "fix"),
    [
        pytest.param(
            at(2, "chain", "*rows", 0, "list of 3", "Tensor"),
            "x = chain(rows)",
            "chain takes its arguments one by one, and got rows (list of 3) as one of them in line 2",
            "chain(*rows)",
            id="a list",
        ),
        pytest.param(
            at(2, "chain", "*rows", 0, "tuple of 3", "Tensor"),
            "x = chain(rows)",
            "chain takes its arguments one by one, and got rows (tuple of 3)",
            "chain(*rows)",
            id="a tuple",
        ),
        pytest.param(
            at(2, "chain", "*rows", 0, "list of 3", "Tensor"),
            "x = chain([one, two])",
            "*rows of chain takes Tensor",
            "",
            id="a list without a name",
        ),
        pytest.param(
            at(2, "chain", "rows", 0, "list of 3", "Model"),
            "x = chain(rows)",
            "rows of chain takes Model",
            "",
            id="one alone",
        ),
        pytest.param(
            at(2, "Adam", "lr", 1, "str of 4 characters", "float"),
            "x = Adam(p, '1e-3')",
            "lr of Adam takes float, and got a text in line 2: '1e-3'",
            "without quotes:  lr=1e-3",
            id="a number in quotes",
        ),
        pytest.param(
            at(2, "Adam", "lr", 1, "str of 4 characters", "float | Tensor"),
            "x = Adam(p, lr='0.01')",
            "lr of Adam takes float | Tensor, and got a text in line 2: '0.01'",
            "without quotes:  lr=0.01",
            id="by its name",
        ),
        pytest.param(
            at(2, "Adam", "lr", 1, "str of 4 characters", "float"),
            "x = Adam(p, 'auto')",
            "lr of Adam takes float, and got 'auto' (str of 4 characters) in line 2",
            "give it that",
            id="a word in quotes",
        ),
        pytest.param(
            at(2, "Adam", "mode", 1, "str of 4 characters", "Model"),
            "x = Adam(p, '0.01')",
            "mode of Adam takes Model, and got '0.01' (str of 4 characters) in line 2",
            "",
            id="where no number is taken",
        ),
    ],
)
def test_several_things_as_one_and_numbers_in_quotes_are_told(
    given: Given, line: str, cause: str, fix: str, tmp_path: Path
) -> None:
    failure = failed(tmp_path, "TypeError", "list, tuple and str are odd", given, cell=f"begin()\n{line}\n")

    assert cause_of(failure).startswith(cause)
    assert failure.hint is not None
    assert failure.hint.fix.en.startswith(fix)
    assert fix or "(*" not in failure.hint.fix.en + "quotes"


KIND = at(8, "fit", "data", 0, "the class Rows", "Dataset")


@pytest.mark.parametrize(
    ("given", "message", "is_cause"),
    [
        pytest.param(KIND, "'property' object is not callable", True, id="a property of a class"),
        pytest.param(KIND, "'int' object is not callable", False, id="something else of a class"),
        pytest.param(LIST, "'property' object is odd", False, id="of no class"),
        pytest.param(
            at(2, "DataLoader", "size", 3, "0.5", "Model | int"), "0.5 is no model", True, id="a float"
        ),
        pytest.param(
            at(2, "DataLoader", "size", 3, "0.5", "Model | int"), "it got 0.5.", True, id="at the end"
        ),
        pytest.param(
            at(2, "DataLoader", "size", 3, "0.5", "Model | int"), "it got 10.52", False, id="a longer one"
        ),
        pytest.param(
            at(2, "DataLoader", "size", 3, "1.0", "Model | int"), "lent 1.0.3", False, id="a version"
        ),
    ],
)
def test_what_a_message_says_of_a_class_or_a_float_names_it(
    given: Given, message: str, is_cause: bool, tmp_path: Path
) -> None:
    failure = failed(tmp_path, "TypeError", message, given)

    assert cause_of(failure).startswith(f"{given[3]} of {given[2]} takes") is is_cause


TAKES_APART = [(PROGRAM, 2, "<module>", ""), (f"{PACKAGES}/lent/load.py", 9, "run", "for x, y in rows:")]


@pytest.mark.parametrize(
    ("frames", "source"),
    [
        pytest.param(TAKES_APART, "data", id="by a library"),
        pytest.param([(PROGRAM, 2, "<module>", "for x, y in rows:")], "", id="by the program"),
    ],
)
def test_what_a_library_cannot_take_apart_is_told_as_what_was_given(
    frames: list[Frame], source: str, tmp_path: Path
) -> None:
    message = "not enough values to unpack (expected 2, got 1)"

    failure = failed(
        tmp_path, "ValueError", message, at(2, "DataLoader", "data", 0, "list of 3", ""), frames=frames
    )

    assert failure.hint is not None
    assert (failure.hint.signature == "argument-unfit-handed") is bool(source)
    assert not source or cause_of(failure).startswith(
        "DataLoader was given data (list of 3) as data in line 2"
    )


@pytest.mark.parametrize("told", [[("Net", "trainning_step", "Module", "training_step")], []])
def test_a_method_that_is_nearly_a_hook_is_a_fact(told: list[object], tmp_path: Path) -> None:
    failure = failed(tmp_path, "RuntimeError", NOTHING, nearly=told)

    said = "Net has trainning_step(), which Module does not call: it calls training_step()"
    assert notes_of(failure) == ([said] if told else [])


QUOTED = """\
attr = ParamAttr(initializer=Normal(0.0, std="0.1"))
layer = Embedding(words, width, attr)
other = Embedding(int("3"), width, name="table")
plain = leaky_relu(x, '1e-2')
both = scale(x, "2", "3")
"""
OF_TEXT = "(InvalidType) gaussian(): argument (position 3) must be double, but got str (at /paddle/op.cc:428)"


@pytest.mark.parametrize(
    ("line", "names", "said", "fix"),
    [
        pytest.param(2, ("words", "attr"), ": line 1 has std='0.1'", "std=0.1", id="a line above"),
        pytest.param(4, ("x",), ": line 4 has '1e-2'", "1e-2", id="this line"),
        pytest.param(3, ("width",), "", "a number without quotes", id="a text that is a number at last"),
        pytest.param(5, ("x",), "", "a number without quotes", id="one of two"),
    ],
)
def test_a_number_in_quotes_is_told_where_an_operation_of_paddle_gets_a_text(
    tmp_path: Path, line: int, names: tuple[str, ...], said: str, fix: str
) -> None:
    operands = [(PROGRAM, line, name, "ParamAttr" if name == "attr" else "10") for name in names]

    failure = failed(tmp_path, "TypeError", OF_TEXT, line=line, cell=QUOTED, operands=operands)

    assert cause_of(failure) == f"gaussian() takes double at position 3, and got a text{said}"
    assert failure.hint is not None
    assert fix in failure.hint.fix.en


def test_what_a_layer_was_given_is_told_rather_than_what_its_operation_got(tmp_path: Path) -> None:
    message = (
        "(InvalidType) group_norm(): argument (position 5) must be int, but got tuple (at /paddle/op.cc:321)"
    )
    cell = "norm = GroupNorm((4, 4), 16)\ny = norm(x)\n"

    known = failed(
        tmp_path / "1", "TypeError", message, at(1, "GroupNorm", "num_groups", 0, "(4, 4)", "int"), cell=cell
    )
    unknown = failed(tmp_path / "2", "TypeError", message, cell=cell)

    assert cause_of(known) == "num_groups of GroupNorm takes int, and got (4, 4) in line 1"
    assert cause_of(unknown) == "group_norm() takes int at position 5, and got tuple"
