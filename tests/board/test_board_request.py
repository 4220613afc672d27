"""Requests to the board: which view each gets, under which address."""

from __future__ import annotations

import pytest

from nbdist.board.request import BoardRequest, Refused, encoded, page, proxied_token, read_request

TOKEN = "a-token"
PROXIED = proxied_token(TOKEN)
BEHIND = "/user/ann/proxy/absolute/8040"
MARK = encoded("/api_serving/8040")


def read(path: str, host: str = "127.0.0.1:8040", **headers: str) -> BoardRequest:
    environ = {"PATH_INFO": path, "HTTP_HOST": host}
    environ |= {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    return read_request(environ, TOKEN)


@pytest.mark.parametrize(
    ("path", "public_path"),
    [
        pytest.param(f"/{TOKEN}/run/scalar", f"/{TOKEN}/run", id="directly"),
        pytest.param(f"{BEHIND}/{PROXIED}/run/scalar", f"{BEHIND}/{PROXIED}/run", id="behind a prefix"),
        pytest.param(
            f"/{PROXIED}/{MARK}/run/scalar",
            f"/api_serving/8040/{PROXIED}/{MARK}/run",
            id="behind a prefix that was taken away",
        ),
        pytest.param(
            f"/api_serving/8040/{PROXIED}/{MARK}/run/scalar",
            f"/api_serving/8040/{PROXIED}/{MARK}/run",
            id="behind one that might have been, and was not",
        ),
    ],
)
def test_a_view_knows_the_address_that_the_browser_has(path: str, public_path: str) -> None:
    request = read(path)

    assert request.runs == ("run",)
    assert request.public_path == public_path
    assert request.path == public_path + "/scalar"


def test_a_server_that_authenticates_sends_the_token_itself() -> None:
    request = read(
        "/user/ann/nbdist/visualdl/a~b/scalar",
        host="hub.example.org",
        authorization=f"Bearer {TOKEN}",
        x_nbdist_public_path="/user/ann/nbdist/visualdl",
    )

    assert request.runs == ("a", "b")
    assert request.public_path == "/user/ann/nbdist/visualdl/a~b"
    assert not request.direct


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        pytest.param(f"/{TOKEN}/run/scalar", "hub.example.org", 403, id="the direct token, another name"),
        pytest.param(f"{BEHIND}/{TOKEN}/run/scalar", "127.0.0.1", 404, id="the direct token behind a proxy"),
        pytest.param("/wrong/run/scalar", "127.0.0.1", 404, id="another token"),
        pytest.param("/wrong/run/scalar", "hub.example.org", 403, id="another token, under another name"),
        pytest.param(f"/{PROXIED}/@%%%/run/scalar", "127.0.0.1", 404, id="a prefix that is none"),
        pytest.param(
            f"/{PROXIED}/{encoded('/<script>')}/run/scalar", "127.0.0.1", 404, id="a prefix that is a script"
        ),
    ],
)
def test_what_may_not_ask_is_refused(path: str, host: str, status: int) -> None:
    with pytest.raises(Refused) as refused:
        read(path, host)

    assert refused.value.status == status


def test_the_proxied_token_is_taken_under_any_name() -> None:
    assert read(f"{BEHIND}/{PROXIED}/run/scalar", "hub.example.org").runs == ("run",)


def test_a_wrong_bearer_is_no_token() -> None:
    with pytest.raises(Refused):
        read("/x/run/scalar", authorization="Bearer wrong", x_nbdist_public_path="/x")


def test_a_page_is_of_at_least_one_run() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        page([])
