"""A server with a run is active: what ends idle servers leaves it alone."""

from __future__ import annotations

import asyncio
import datetime
import os
from types import SimpleNamespace

import pytest

from nbdist import config
from nbdist.server import app
from nbdist.store.run_store import take_run_lock


def activity() -> dict[str, datetime.datetime]:
    """Return what the extension tells the server of activity, after one look."""
    server = SimpleNamespace(web_app=SimpleNamespace(settings={"last_activity_times": {}}))
    asyncio.run(app._count_as_active(server))
    return server.web_app.settings["last_activity_times"]


def test_a_run_that_goes_on_is_activity_and_one_that_has_ended_is_none(written) -> None:
    ended = activity()

    lock = take_run_lock(written.directory)
    runs = activity()
    os.close(lock)

    assert ended == {}
    age = datetime.datetime.now(datetime.timezone.utc) - runs["nbdist"]
    assert age < datetime.timedelta(seconds=60)


@pytest.mark.parametrize(
    ("environment", "may"),
    [
        ({}, False),
        ({"JUPYTERHUB_USER": "ada"}, True),
        ({"JUPYTERHUB_USER": "ada", config.SERVED: "1"}, False),
    ],
)
def test_a_hub_may_end_a_run_whose_server_has_no_extension(environment: dict[str, str], may: bool) -> None:
    assert config.may_be_culled(environment) is may
