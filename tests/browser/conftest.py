"""One JupyterLab and one Chromium for the browser tests of a process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from nbdist.runner import RunHandle
from nbdist.store import RunStore
from tests.conftest import a_browser

sys.path.insert(0, str(Path(__file__).parent))

from lab import LabServer


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Keep a page in which JupyterLab is loaded for the next test, also of another file."""
    with a_browser() as browser:
        yield browser


@pytest.fixture(scope="package")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    server = LabServer(tmp_path_factory.mktemp("lab"))
    try:
        server.wait_until_up()
        yield server
    finally:
        server.close()


@pytest.fixture(autouse=True)
def no_run_is_left_to_the_next_test(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "lab_server" in request.fixturenames:
        for directory in RunStore(request.getfixturevalue("lab_server").home).directories():
            RunHandle(directory).stop("the test is over")
