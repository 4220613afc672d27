"""VisualDL behind the server: the real one under a prefix, and one that the test plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nbdist.board import BoardRoute, stop_board
from nbdist.errors import LaunchError
from nbdist.model import RunState
from nbdist.server.backend import Backend
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import RUN_ID, STARTED, exited, run_ended

Ask = Callable[..., Any]


async def test_visualdl_is_served_under_the_prefix(
    ask: Ask, http_server_client: Any, jp_auth_header: dict[str, str], home: Path
) -> None:
    run = WrittenRun(home).happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))
    for step in range(5):
        with run.directory.rank(0).metrics.open("a") as metrics:
            metrics.write(json.dumps({"t": run.spec.created + step, "step": step, "v": {"loss": 0.5}}) + "\n")

    async def get(path: str) -> Any:
        return await http_server_client.fetch(
            path, headers=jp_auth_header, raise_error=False, request_timeout=60, follow_redirects=False
        )

    try:
        opened = await ask("api/board", "POST", {"run_ids": [RUN_ID]}, request_timeout=60)
        url = json.loads(opened.body)["url"]
        sent_on = await get(url)
        page = await get(url.rpartition("/")[0] + "/" + sent_on.headers["Location"])
        tags = await get(url.rpartition("/")[0] + "/api/scalar/tags")
        nowhere = await get(url.replace(RUN_ID, "20261120-141503-lenet-none"))
    finally:
        stop_board(home)

    assert url == f"/a%40b/nbdist/visualdl/{RUN_ID}/scalar"
    assert page.code == 200
    assert f"/a%40b/nbdist/visualdl/{RUN_ID}" in page.body.decode() or "/a@b/" in page.body.decode()
    assert b"loss" in tags.body
    assert nowhere.code == 404


class FakeBoard:
    """A board that sends the test's answer to each request, and records the requests."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.port = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answer)
        await writer.drain()
        writer.close()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[FakeBoard]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    def route(self, _home: Path, public_path: str) -> BoardRoute:
        headers = {"Authorization": "Bearer of-the-board"}
        return BoardRoute(host="127.0.0.1", port=self.port, headers=headers, public_path=public_path)


@pytest.fixture
def play(jp_web_app: Any, home: Path) -> Callable[..., None]:
    def play(find_board: Any, **more: Any) -> None:
        backend = Backend(home, "/a%40b/nbdist/visualdl", find_board=find_board, **more)
        jp_web_app.settings["nbdist"] = lambda: backend

    return play


async def test_the_address_goes_on_as_it_came_and_the_login_stays_here(ask: Ask, play: Any) -> None:
    answer = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nSet-Cookie: a=b\r\nServer: x\r\n\r\nhello"
    async with FakeBoard(answer).serving() as board:
        play(board.route)
        got = await ask("visualdl/run/scalar", headers={"Cookie": "mine=1"}, params={"a": "1"})

    head = board.requests[0].decode()
    assert got.code == 200
    assert got.body == b"hello"
    assert "a=b" not in str(got.headers)
    assert head.startswith("GET /a%40b/nbdist/visualdl/run/scalar?a=1 HTTP/1.0\r\n")
    assert "Authorization: Bearer of-the-board" in head
    assert "mine" not in head
    assert "token " not in head


@pytest.mark.parametrize(
    ("location", "kept"),
    [
        ("scalar?runs=a", True),
        ("/a%40b/nbdist/visualdl/x", True),
        ("//elsewhere.example/", False),
        ("https://elsewhere.example/", False),
    ],
)
async def test_a_redirect_leads_to_no_other_site(ask: Ask, play: Any, location: str, kept: bool) -> None:
    answer = f"HTTP/1.0 302 Found\r\nLocation: {location}\r\n\r\n".encode()
    async with FakeBoard(answer).serving() as board:
        play(board.route)
        got = await ask("visualdl/run/")

    assert got.code == 302
    assert got.headers.get("Location") == (location if kept else None)


async def test_a_board_that_has_ended_is_found_again(ask: Ask, play: Any) -> None:
    async with FakeBoard(b"HTTP/1.0 200 OK\r\n\r\nfirst").serving() as first:
        second = FakeBoard(b"HTTP/1.0 200 OK\r\n\r\nsecond")
        boards = [first, second]
        play(lambda home, path: boards[0].route(home, path))
        before = await ask("visualdl/run/scalar")
    boards.remove(first)
    async with second.serving():
        after = await ask("visualdl/run/scalar")

    assert (before.body, after.body) == (b"first", b"second")


@pytest.mark.parametrize(
    ("answer", "code"),
    [(b"", 502), (b"220 smtp ready\r\n\r\n", 502), (b"HTTP/1.0 500 Oops\r\n\r\n", 500)],
    ids=["nothing", "another protocol", "an error of its own"],
)
async def test_what_is_no_answer_is_an_error(ask: Ask, play: Any, answer: bytes, code: int) -> None:
    async with FakeBoard(answer).serving() as board:
        play(board.route)
        assert (await ask("visualdl/run/scalar")).code == code


async def test_a_board_that_is_busy_is_asked_again_by_the_page(ask: Ask, play: Any) -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    board = FakeBoard(b"")
    server = await asyncio.start_server(never, "127.0.0.1", 0)
    board.port = server.sockets[0].getsockname()[1]
    play(board.route, board_patience=0.1)

    got = await ask("visualdl/run/scalar")

    server.close()
    assert (got.code, got.headers["Retry-After"]) == (503, "3")
    assert b"still reading" in got.body
    assert b'http-equiv="refresh"' in got.body


async def test_where_visualdl_does_not_start_the_page_says_why(ask: Ask, play: Any, home: Path) -> None:
    WrittenRun(home)

    def fails(_home: Path, _path: str) -> BoardRoute:
        raise LaunchError("VisualDL cannot be imported")

    play(fails)

    opened = await ask("api/board", "POST", {"run_ids": [RUN_ID]})
    page = await ask("visualdl/run/scalar")

    assert opened.code == 503
    assert json.loads(opened.body)["message"] == "VisualDL cannot be imported"
    assert page.code == 503


async def test_a_page_of_another_site_posts_nothing(ask: Ask, play: Any) -> None:
    async with FakeBoard(b"HTTP/1.0 200 OK\r\n\r\n").serving() as board:
        play(board.route)
        # without the token, as a browser whose login is a cookie
        headers = {"Authorization": "", "Origin": "https://elsewhere.example"}
        got = await ask("visualdl/run/api", "POST", {"x": 1}, headers=headers)

    assert got.code in (403, 404)
    assert board.requests == []
