"""What a diagnosis says of a name that a library has in another place."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from nbdist.diagnosis.rank_failure import Failure
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited


def failed(folder: Path, kind: str, message: str, **more: object) -> Failure:
    written = WrittenRun(folder / "home", cell="import lent\nx = lent.x\n").happened(*STARTED)
    frames = [(a_spec().program, 2, "<module>", "")]
    written.raised(1, kind, message, frames=frames, time=CREATED + 5, **more)  # type: ignore[arg-type]
    failure = diagnose(written.happened(errored(1), exited(1, 1)).run, written.directory)
    assert failure is not None
    return failure


KEYWORD = "Saver.__init__() got an unexpected keyword argument 'keeps'"

PLACES = [
    pytest.param(
        "AttributeError",
        "module 'lent' has no attribute 'encode'",
        {"elsewhere": "lent.other.encode"},
        ("name-of-other-module", "lent has no encode in the installed version: it is lent.other.encode"),
        id="another module",
    ),
    pytest.param(
        "ImportError",
        "cannot import name 'Reader' from 'lent' (/v/lent/__init__.py)",
        {"elsewhere": "lent.other.Reader"},
        ("name-of-other-module", "lent has no Reader in the installed version: it is lent.other.Reader"),
        id="an import",
    ),
    pytest.param(
        "AttributeError",
        "'Wrapper' object has no attribute 'encode'",
        {"elsewhere": ".module.encode"},
        ("name-within", "Wrapper has no encode: what is within it as .module has one"),
        id="within an object",
    ),
    pytest.param(
        "AttributeError",
        "'Tensor' object has no attribute 'softmax_of'",
        {"elsewhere": "paddle.nn.functional.softmax_of"},
        ("function-not-method", "a Tensor has no method softmax_of(): it is a function, paddle.nn.fun"),
        id="a function",
    ),
    pytest.param(
        "AttributeError",
        "'Wrapper' object has no attribute 'Reader'",
        {"elsewhere": "lent.other.Reader"},
        ("class-of-module", "Wrapper is an object, and has no Reader: the class is lent.other.Reader"),
        id="a class by an object",
    ),
    pytest.param(
        "TypeError",
        KEYWORD,
        {"elsewhere": "keep=", "takes": "path, keep=None"},
        ("keyword-renamed", "Saver() takes no keeps= in the installed version: it takes keep="),
        id="a parameter by another name",
    ),
    pytest.param(
        "TypeError",
        KEYWORD,
        {"elsewhere": "Reader, Writer", "takes": "path"},
        ("keyword-of-other", "Saver() takes no keeps= : it is a parameter of Reader, Writer"),
        id="a parameter of others",
    ),
    pytest.param(
        "TypeError",
        KEYWORD,
        {"takes": "path, keep=None"},
        ("keyword-not-taken", "Saver() takes no keeps= in the installed version; it takes path, keep=None"),
        id="all parameters",
    ),
]


@pytest.mark.parametrize(("kind", "message", "more", "expected"), PLACES)
def test_the_other_place_of_a_name_is_the_cause(
    kind: str, message: str, more: dict[str, object], expected: tuple[str, str], tmp_path: Path
) -> None:
    failure = failed(tmp_path, kind, message, **more)

    assert failure.hint is not None
    assert failure.hint.signature == expected[0]
    assert failure.hint.cause.en.startswith(expected[1])


@pytest.mark.parametrize(
    ("message", "more"),
    [
        pytest.param("module 'lent' has no attribute 'encode'", {}, id="nowhere"),
        pytest.param("it has no encode", {"elsewhere": "lent.other.encode"}, id="other words"),
        pytest.param(KEYWORD, {"takes": ", ".join(f"parameter_{n}" for n in range(99))}, id="too many"),
        pytest.param(
            "module 'lent' has no attribute 'encode'",
            {
                "elsewhere": "lent.other.encode",
                "text": "Traceback (most recent call last):\nOSError: first\n",
            },
            id="another error came first",
        ),
    ],
)
def test_else_nothing_is_said_of_it(message: str, more: dict[str, object], tmp_path: Path) -> None:
    failure = failed(tmp_path, "TypeError", message, **more)

    signature = failure.hint.signature if failure.hint is not None else ""
    assert not signature.startswith(("name-of", "name-within", "keyword-", "class-of", "function-not"))


def test_the_parameters_are_told_of_a_call_without_one_of_them(tmp_path: Path) -> None:
    message = "measure() missing 1 required positional argument: 'x'"

    failure = failed(tmp_path, "TypeError", message, takes="x, axis=-1")

    assert failure.hint is not None
    assert failure.hint.fix.en == "it takes: x, axis=-1"
