"""An output of a rank is a file, a record and a line of its log at once."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.worker.conftest import ROOT, Rank

LINE = re.compile(r"\x1b\]nbdist;([0-9a-f]{32}\.\w+);(\d+);(\d+)\x07(.*)")
START = "from nbdist.worker import bootstrap; bootstrap.show_outputs()\n"
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n0000IHDR" + (3).to_bytes(4, "big") + (2).to_bytes(4, "big"))


def shown(rank: Rank, program: str, **environment: str) -> list[str]:
    """Return the lines of the rank's log after a program."""
    rank.environment |= environment
    with rank.files.log.open("ab") as log:
        subprocess.run(
            [*rank.python, f"{START}{program}"],
            env=rank.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=100,
            check=True,
        )
    return rank.files.log.read_text().splitlines()


def records(rank: Rank) -> list[dict[str, Any]]:
    return [json.loads(line) for line in rank.files.display.read_text().splitlines()]


CLASSES = """
class Table:
    shape = (2, 3)
    def __repr__(self): return "a b\\n1 2"
    def _repr_html_(self): return "<table></table>"
class Broken:
    def __repr__(self): return "broken"
    def _repr_html_(self): raise ValueError("no")
"""


def test_html_is_a_file_a_record_and_a_line_in_its_place(rank: Rank) -> None:
    lines = shown(rank, f"{CLASSES}print('before', flush=True); display(Table()); print('after')")

    assert (lines[0], lines[2]) == ("before", "after")
    name, width, height, text = LINE.fullmatch(lines[1]).groups()
    assert (width, height, text) == ("0", "0", "<Table 2 × 3>")
    file = rank.files.media / name
    assert file.read_text() == "<table></table>"
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, rank.files.display)]
    assert modes == [0o600, 0o700, 0o600]
    (record,) = records(rank)
    assert rank.files.log.read_bytes()[record["at"] :].startswith(b"\x1b]nbdist;")
    assert (record["file"], record["mime"], record["text"]) == (name, "text/html", "a b\n1 2")


@pytest.mark.parametrize(
    ("shows", "expected"),
    [
        pytest.param("display(1, 'two')", ["1", "'two'"], id="plain values"),
        pytest.param("display({'a': 1})", ["{'a': 1}"], id="a dict"),
        pytest.param("display(Table)", ["<class '__main__.Table'>"], id="a class"),
        pytest.param("display({'text/plain': 'hello'}, raw=True)", ["hello"], id="data that is text"),
        pytest.param(
            "display(Broken())", ["nbdist: Broken._repr_html_ failed: ValueError: no", "broken"], id="broken"
        ),
        pytest.param(
            "display({'text/html': 'x' * (9 << 20), 'text/plain': 'a page'}, raw=True)",
            ["nbdist: text/html of 9 MiB is printed as text: at most 1 MiB can be shown", "a page"],
            id="too large",
        ),
        pytest.param(
            "from IPython.display import Markdown; display(Markdown('*so*'))", ["*so*"], id="Markdown"
        ),
        pytest.param(
            "import ipywidgets; display(ipywidgets.IntSlider(value=3))", ["IntSlider(value=3)"], id="a widget"
        ),
    ],
)
def test_what_has_no_picture_is_printed(rank: Rank, shows: str, expected: list[str]) -> None:
    assert shown(rank, CLASSES + shows) == expected
    assert not rank.files.display.exists()


def test_the_last_value_is_shown_behind_a_line_that_still_grows_unless_it_is_none(rank: Rank) -> None:
    last = "from nbdist.worker.display import show_last; show_last(None); show_last(Table())"
    lines = shown(rank, f"{CLASSES}print('50 %', end=''); {last}")

    assert lines[0] == "50 %"
    assert LINE.fullmatch(lines[1])
    (record,) = records(rank)
    assert rank.files.log.read_bytes()[record["at"] :].startswith(b"\x1b]nbdist;")


def test_equal_outputs_are_equal_lines_and_one_file(rank: Rank, tmp_path: Path) -> None:
    other = Rank(rank.run.path, rank=1)

    lines = shown(rank, f"{CLASSES}display(Table(), Table())")

    assert lines[0] == lines[1]
    assert lines[:1] == shown(other, f"{CLASSES}display(Table())")
    assert len(list(rank.files.media.iterdir())) == 1


def test_ipythons_display_is_this_one(rank: Rank) -> None:
    lines = shown(
        rank,
        f"""{CLASSES}
from IPython.display import HTML, Image, SVG, display, update_display
from base64 import b64decode
handle = display(HTML("<b>one</b>"), display_id=True)
handle.update(HTML("<b>two</b>"))
update_display(SVG("<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"), display_id="mine")
display(Image(data=b64decode({PIXEL!r})))
""",
    )

    assert [LINE.fullmatch(line)[1].partition(".")[2] for line in lines] == ["html", "html", "svg", "png"]
    first, second, third, last = records(rank)
    assert first["id"] == second["id"] != ""
    assert third["id"] == "mine"
    assert (last["width"], last["height"]) == (3, 2)


def test_figures_are_shown_by_show_and_at_the_end(rank: Rank) -> None:
    pytest.importorskip("matplotlib")
    program = """
import matplotlib.pyplot as plt
plt.plot([1, 2]); plt.show(); print("between", flush=True)
plt.figure()
fig, ax = plt.subplots(); ax.hist([1, 2, 3])
bootstrap.stack_answers.call_used("figures", "show")
print(plt.get_fignums())
"""

    lines = shown(rank, program, MPLBACKEND="agg", NBDIST_FIGURES="inline")

    first, between, second, numbers = lines
    assert (between, numbers) == ("between", "[]")
    for line in (first, second):
        name, width, height, text = LINE.fullmatch(line).groups()
        assert text == "<Figure size 640x480 with 1 Axes>"
        size = Image.open(io.BytesIO((rank.files.media / name).read_bytes())).size
        assert size == (int(width), int(height))


def test_a_program_that_chooses_its_backend_keeps_it(rank: Rank) -> None:
    pytest.importorskip("matplotlib")
    program = "import matplotlib; matplotlib.use('svg'); import matplotlib.pyplot as plt; plt.plot([1]);"
    program += "bootstrap.stack_answers.call_used('figures', 'show'); print(1)"

    lines = shown(rank, program, MPLBACKEND="agg", NBDIST_FIGURES="inline")

    assert lines == ["1"]


def test_pandas_tables_and_logged_images_are_shown(rank: Rank) -> None:
    pytest.importorskip("pandas")

    lines = shown(
        rank,
        "import nbdist, numpy, pandas; display(pandas.DataFrame({'a': [1, 2]}));"
        "nbdist.log_image('samples', numpy.zeros((4, 6, 3), numpy.uint8), 3)",
    )

    table, image = (LINE.fullmatch(line).groups() for line in lines)
    assert table[3] == "<DataFrame 2 × 1>"
    assert "<table" in (rank.files.media / table[0]).read_text()
    assert image[1:] == ("6", "4", "<samples, step 3>")


def test_a_rank_that_shows_nothing_imports_nothing(rank: Rank) -> None:
    lines = shown(rank, "import sys; print(sorted(sys.modules))")

    loaded = set(re.findall(r"'([^']+)'", lines[0]))
    assert {"IPython", "matplotlib", "base64", "json", "nbdist.worker.display"}.isdisjoint(loaded)


def test_outside_a_run_display_prints(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NBDIST_")}

    done = subprocess.run(
        [*Rank(tmp_path).python, f"{START}{CLASSES}display(Table())"],
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )

    assert done.stdout == "a b\n1 2\n"
