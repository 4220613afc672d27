"""A home with runs whose ranks have logged, and requests to the board over it."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from werkzeug.test import Client, TestResponse

from nbdist.board import stop_board
from nbdist.board.patches import PATCHES
from nbdist.store import RunDirectory

TOKEN = "a-token"


class Home:
    """An NBDIST_HOME in which ranks log what a test says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "runs").mkdir(parents=True)

    def run(self, run_id: str = "20261120-141503-lenet-k3f9") -> RunDirectory:
        path = self.path / "runs" / run_id
        path.mkdir(exist_ok=True)
        return RunDirectory(path)

    def log(self, run: RunDirectory, *lines: object, rank: int = 0, attempt: int = 1) -> Path:
        """Append to a rank's metrics: an entry as JSON, text as it is."""
        metrics = run.rank(rank, attempt).metrics
        metrics.parent.mkdir(parents=True, exist_ok=True)
        with metrics.open("a") as file:
            for line in lines:
                file.write(line if isinstance(line, str) else json.dumps(line) + "\n")
        return metrics

    @staticmethod
    def point(step: int | None, t: float = 1763712345.125, **values: float) -> dict[str, object]:
        """Return the line that nbdist.log writes."""
        entry: dict[str, object] = {"t": t, "v": values}
        return entry if step is None else {"step": step, **entry}


class Visitor:
    """Somebody who has the token, at the board's application in this process."""

    def __init__(self, home: Home) -> None:
        from nbdist.board.patches import PATCHES, apply
        from nbdist.board.visualdl_app import BoardApp

        apply(PATCHES)
        self._client = Client(BoardApp(home.path / "runs", TOKEN))

    def get(
        self, path: str, *, host: str = "127.0.0.1:8040", follow: bool = True, **headers: str
    ) -> TestResponse:
        address = f"/{TOKEN}/{path}"
        answer = self._client.get(address, base_url=f"http://{host}", headers=headers)
        while follow and answer.status_code == 302:
            address = urljoin(address, answer.headers["Location"])
            answer = self._client.get(address, base_url=f"http://{host}", headers=headers)
        return answer

    def api(self, path: str, *runs: RunDirectory) -> Any:
        """Return the data of an answer of VisualDL over these runs."""
        answer = self.get("~".join(run.run_id for run in runs) + f"/api/{path}").json
        assert answer["status"] == 0, answer
        return answer["data"]

    def curves(self, run: RunDirectory) -> dict[str, list[str]]:
        """Return the tags of each curve."""
        listed = self.api("scalar/tags", run)
        return dict(zip(listed["runs"], listed["tags"], strict=True))

    def steps(self, run: RunDirectory, curve: str, tag: str = "loss") -> list[int]:
        return [step for _, step, _ in self.api(f"scalar/list?run={curve}&tag={tag}", run)]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    stop_board(home.path)


@pytest.fixture
def visitor(home: Home) -> Visitor:
    return Visitor(home)


@pytest.fixture(autouse=True, scope="module")
def visualdl_is_put_back() -> Iterator[None]:
    """Undo what ``apply`` replaces in VisualDL: other tests of this process read with it as it is."""
    own = {name: pkgutil.resolve_name(name) for name in PATCHES}
    yield
    for name, value in own.items():
        owner, _, attribute = name.rpartition(".")
        setattr(pkgutil.resolve_name(owner), attribute, value)
