"""Every view of VisualDL that works with packages of today, over real records, opened as a person does."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Page

from nbdist.board import ensure_board, stop_board
from nbdist.store import RunStore

pytestmark = pytest.mark.browser

CELL = """
import numpy, nbdist
rng = numpy.random.default_rng(1)
nbdist.log_hparams({"lr": 0.1, "batch": 32}, ["loss"])
for step in range(4):
    nbdist.log(step=step, loss=1 / (step + 1))
    nbdist.log_image("samples", rng.integers(0, 255, (32, 48, 3)).astype(numpy.uint8), step)
    nbdist.log_audio("tone", numpy.sin(numpy.arange(8000) / 8), step, sample_rate=8000)
    nbdist.log_text("story", f"once upon a time {step}", step)
    nbdist.log_histogram("weights", rng.normal(step, 1, 500), step)
    nbdist.log_pr_curve("precision", rng.random(200) > 0.5, rng.random(200), step)
    nbdist.log_roc_curve("roc", rng.random(200) > 0.5, rng.random(200), step)
nbdist.log_embedding("points", rng.normal(0, 1, (60, 8)), [f"p{n}" for n in range(60)])
"""
# VisualDL asks for the picture of a handle where it does not ship it; the handle works without
MISSING = "/icons/dragger.svg"
LIMIT = 30_000.0  # milliseconds


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a board over one real run."""
    home = tmp_path_factory.mktemp("views") / "home"
    home.mkdir()
    program = home / "everything.py"
    program.write_text(CELL)
    words = [sys.executable, "-m", "nbdist", "run", "-n", "1", "--name", "views", str(program)]
    ended = subprocess.run(
        words, env=os.environ | {"NBDIST_HOME": str(home)}, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (directory,) = RunStore(home).directories()
    try:
        yield ensure_board(home).url([directory.run_id]).partition("?")[0].removesuffix("/scalar")
    finally:
        stop_board(home)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1200, "height": 760}, locale="en-US")
    page.set_default_timeout(LIMIT)
    errors: list[tuple[str, str]] = []

    def complain(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append((message.text, message.location["url"]))

    page.on("pageerror", lambda error: errors.append((str(error), "")))
    page.on("console", complain)
    page.on("response", lambda got: errors.append((str(got.status), got.url)) if got.status >= 400 else None)
    yield page
    page.close()
    assert [error for error in errors if not error[1].endswith(MISSING)] == []


def is_drawn(page: Page) -> None:
    """Wait until a canvas of the page shows something: lines or points, with the shades at their edges."""
    page.locator("canvas").first.wait_for()
    end = time.monotonic() + LIMIT / 1000
    while time.monotonic() < end:
        for canvas in page.locator("canvas").all():
            shot = Image.open(io.BytesIO(canvas.screenshot()))
            if len(shot.convert("RGB").getcolors(1 << 24) or ()) > 20:
                return
    raise AssertionError("nothing is drawn")


@pytest.mark.parametrize(
    ("view", "texts"),
    [
        ("histogram", ["weights", "rank0.histogram"]),
        ("pr-curve", ["precision", "rank0.pr_curve"]),
        ("roc-curve", ["roc", "rank0.roc_curve"]),
        ("high-dimensional", ["Points: 60", "rank0.embeddings/points"]),
    ],
)
def test_a_view_draws_what_a_rank_showed(page: Page, board: str, view: str, texts: list[str]) -> None:
    page.goto(f"{board}/{view}")

    for text in texts:
        page.get_by_text(text).first.wait_for()
    is_drawn(page)


def test_the_pictures_are_shown(page: Page, board: str) -> None:
    page.goto(f"{board}/sample/image")

    page.get_by_text("Sample: 1/4").wait_for()
    page.wait_for_function("[...document.images].some(image => image.naturalWidth === 48)")


def test_the_sounds_can_be_played(page: Page, board: str) -> None:
    page.goto(f"{board}/sample/audio")

    page.get_by_text("Sample Rate: 8kHz").wait_for()
    page.get_by_text("00:00/00:01").wait_for()


def test_the_texts_are_shown(page: Page, board: str) -> None:
    page.goto(f"{board}/sample/text")

    page.get_by_text("once upon a time 3").wait_for()


def test_the_hyperparameters_are_laid_side_by_side(page: Page, board: str) -> None:
    page.goto(f"{board}/hyper-parameter")

    for text in ("lr", "batch", "0.25"):  # the loss of the last step
        page.get_by_text(text, exact=True).locator("visible=true").first.wait_for()
    page.get_by_text("Parallel Coordinates View").click()
    page.locator("svg path").first.wait_for(state="attached")
