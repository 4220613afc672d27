"""One JupyterLab and one Chromium for all browser tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).parent))

from lab import CHROMIUM_FLAGS, LabServer, chromium


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    server = LabServer(tmp_path_factory.mktemp("lab"))
    try:
        server.wait_until_up()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = chromium()
    if executable is None:
        if os.environ.get("CI"):
            pytest.fail("there is no Chromium, and in CI the browser tests must run")
        pytest.skip("there is no Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where screenshots are kept: NBDIST_PICTURES, else build/pictures."""
    folder = Path(os.environ.get("NBDIST_PICTURES", "build/pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
