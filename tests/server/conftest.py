"""A Jupyter server with the extension, under a prefix, in this process; and pages that speak to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_jupyter.jupyter_server import *  # noqa: F403
from tornado.httpclient import HTTPResponse
from tornado.websocket import WebSocketClientConnection

from nbdist.feed.protocol import Update
from tests.fakes.wires import decode, lines_of, split_frame


@pytest.fixture
def jp_server_config(home: Path) -> dict[str, Any]:
    return {"ServerApp": {"jpserver_extensions": {"nbdist": True}}}


Ask = Callable[..., Any]


@pytest.fixture
def ask(jp_fetch: Ask) -> Ask:
    """Return a function that requests a path below nbdist/ and returns the response, whatever its status."""

    async def ask(path: str, method: str = "GET", body: object = None, **more: Any) -> HTTPResponse:
        if method in ("POST", "PUT", "PATCH"):
            more["body"] = body if isinstance(body, (str, bytes)) else json.dumps(body) if body else ""
        return await jp_fetch(
            "nbdist", path, method=method, follow_redirects=False, raise_error=False, **more
        )

    return ask


class Page:
    """A browser's end of the stream."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self.socket = socket
        self.updates: list[Update] = []
        self.pulled: list[Update] = []
        self.lists: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.acknowledges = True

    async def say(self, kind: str, **more: Any) -> None:
        await self.socket.write_message(json.dumps({"kind": kind, **more}))

    async def hear(self, limit: float = 20.0) -> dict[str, Any]:
        """Receive one frame; return its header."""
        data = await asyncio.wait_for(self.socket.read_message(), limit)
        assert isinstance(data, bytes), "the socket was closed"
        header, buffers = split_frame(data)
        if header["kind"] == "update":
            update = decode(header, buffers)
            assert isinstance(update, Update)
            (self.pulled if header["pulled"] else self.updates).append(update)
            if self.acknowledges and not header["pulled"]:
                await self.say("ack", run_id=header["run_id"])
        else:
            (self.lists if header["kind"] == "runs" else self.others).append(header)
        return header

    async def until(self, condition: Callable[[], object], limit: float = 30.0) -> None:
        async def listen() -> None:
            while not condition():
                await self.hear(limit)

        await asyncio.wait_for(listen(), limit)

    async def silence(self, seconds: float) -> bool:
        """Return whether no frame comes for ``seconds``."""
        try:
            await self.hear(seconds)
        except asyncio.TimeoutError:
            return True
        return False

    def lines(self, rank: int = 0) -> dict[int, str]:
        """Return the lines of a rank that the page has, by address."""
        return lines_of((*self.pulled, *self.updates), rank)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return all rows of the list that have come."""
        return [row for each in self.lists for row in each["runs"]]

    @property
    def complete(self) -> bool:
        """Return whether the page has all lines that there are."""
        return bool(self.updates) and self.updates[-1].complete_until is None

    def steps(self, tag: str) -> list[float]:
        """Return the steps on the chart of a tag, as it came last."""
        charts = [chart for update in self.updates for chart in update.charts if chart.tag == tag]
        return list(charts[-1].columns[0]) if charts else []

    @property
    def state(self) -> str:
        views = [update.view for update in self.updates if update.view is not None]
        return views[-1].state if views else ""


@pytest.fixture
def open_page(jp_ws_fetch: Ask) -> Callable[[], Any]:
    async def open_page() -> Page:
        return Page(await jp_ws_fetch("nbdist", "api", "stream"))

    return open_page
