"""``nbdist.params``, as programs read it."""

from __future__ import annotations

import argparse
import json
import pickle

import pytest

from nbdist.worker.results import Params


def test_values_are_attributes_items_and_defaults_of_a_parser() -> None:
    params = Params(lr=0.1, width=64)
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1.0)
    parser.set_defaults(**params)

    assert (params.lr, params["width"], params.get("depth", 2)) == (0.1, 64, 2)
    assert vars(parser.parse_args([])) == {"lr": 0.1, "width": 64}
    assert json.dumps(params) == '{"lr": 0.1, "width": 64}'
    assert pickle.loads(pickle.dumps(params)) == params


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (Params(width=64), "nbdist.params has no lr: the sweep has width"),
        (Params(), "nbdist.params has no lr: this run is not of a sweep; nbdist.params.get('lr', …)"),
    ],
)
def test_what_is_not_there_is_said(params: Params, words: str) -> None:
    with pytest.raises(AttributeError, match=words.replace("(", r"\(").replace(")", r"\)")):
        params.lr  # noqa: B018
    with pytest.raises(KeyError, match="has no lr"):
        params["lr"]
    assert not hasattr(params, "lr")
