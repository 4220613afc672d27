"""The board's answers: who gets them, and with which headers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

if TYPE_CHECKING:
    from tests.board.conftest import Home, Visitor


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:8040", 204),
        ("localhost", 204),
        ("[::1]:8040", 204),
        ("example.org", 403),
        ("127.0.0.1.example.org:8040", 403),
        ("localhost.:8040", 403),
        ("10.0.0.1", 403),
    ],
)
def test_only_a_name_of_this_machine_is_answered(visitor: Visitor, host: str, expected: int) -> None:
    assert visitor.get("alive", host=host).status_code == expected


@pytest.mark.parametrize(
    "name",
    ["nothing", "..", ".", "", "~", "%2e%2e", "run~", "run~nothing", "..~run", "run%00", 20_000 * "a"],
    ids=lambda name: name[:12],
)
def test_what_is_no_run_is_not_found(visitor: Visitor, home: Home, name: str) -> None:
    home.run("run")

    assert visitor.get(f"{name}/scalar").status_code == 404
    assert visitor.get("run/scalar").status_code == 200


def test_a_run_asked_for_twice_is_shown_once(visitor: Visitor, home: Home) -> None:
    home.log(home.run("run"), home.point(0, loss=1))

    answer = visitor.get("run~run/api/scalar/tags")

    assert answer.json["data"] == {"runs": ["rank0"], "tags": [["loss"]]}


def test_a_rank_that_logs_later_is_shown(visitor: Visitor, home: Home) -> None:
    run = home.run("run")
    empty = visitor.get("run/api/scalar/tags").json

    home.log(run, home.point(0, loss=1), rank=3)
    later = visitor.get("another~run/scalar"), visitor.get("run/scalar")

    assert empty["data"] == {"runs": [], "tags": []}
    assert [answer.status_code for answer in later] == [404, 200]
    assert (run.board / "rank3").exists() is False  # until somebody asks for points
    end = time.monotonic() + 5
    while not (run.board / "rank3").exists() and time.monotonic() < end:
        visitor.get("run/api/scalar/tags")  # one look serves all requests of a moment
    assert (run.board / "rank3").exists()


@pytest.mark.parametrize(
    ("run_ids", "attempts", "expected"),
    [
        pytest.param(["lenet"], 1, "rank0,mean,min,max,rank0.image", id="one run"),
        pytest.param(
            ["lenet"], 2, "rank0.attempt-2,mean.attempt-2,min.attempt-2,max.attempt-2", id="the last attempt"
        ),
        pytest.param(
            ["20261120-141503-a-k3f9", "20261120-141503-b-p2x7"],
            1,
            "a-k3f9/rank0,a-k3f9/mean,a-k3f9/min,a-k3f9/max,a-k3f9/rank0.image,"
            "b-p2x7/rank0,b-p2x7/mean,b-p2x7/min,b-p2x7/max,b-p2x7/rank0.image",
            id="several runs",
        ),
    ],
)
def test_the_page_opens_with_the_whole_and_rank_0(
    visitor: Visitor, home: Home, run_ids: list[str], attempts: int, expected: str
) -> None:
    for run_id in run_ids:
        run = home.run(run_id)
        (run.board / "rank0.image").mkdir(parents=True)
        (run.board / "rank1.image").mkdir()
        for attempt in range(1, attempts + 1):
            home.log(run, home.point(0, loss=1), attempt=attempt)

    answer = visitor.get("~".join(run_ids) + "/scalar", follow=False)

    assert answer.status_code == 302
    assert parse_qs(urlsplit(answer.headers["Location"]).query) == {"runs": [expected]}
    assert visitor.get("~".join(run_ids) + "/scalar?runs=rank3", follow=False).status_code == 200


def test_an_answer_keeps_the_page_to_itself(visitor: Visitor, home: Home) -> None:
    home.run("run")

    headers = visitor.get("run/scalar").headers

    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*" in policy
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("language", ["", "fr", "de-CH, tlh;q=0.5", "zh-CN,zh;q=0.9", "en-GB", "*"])
def test_a_browser_may_speak_any_language(visitor: Visitor, home: Home, language: str) -> None:
    home.run("run")
    headers = {"Accept-Language": language} if language else {}

    answer = visitor.get("run/index", **headers)

    assert answer.status_code == 200
    assert "Set-Cookie" not in answer.headers


def test_a_run_that_others_may_write_is_not_shown(home: Home, visitor: Visitor) -> None:
    run = home.run()
    assert visitor.get(f"{run.run_id}/alive").status_code == 204

    run.path.chmod(0o777)

    assert visitor.get(f"{run.run_id}/alive").status_code == 404
