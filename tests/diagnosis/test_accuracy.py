"""Changes of a training with more ranks, and what follows from them in a right one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbdist.diagnosis.accuracy import Trained, changes
from nbdist.feed.comparison import compare
from nbdist.panel import comparison_bundle, comparison_text
from nbdist.store.step_records import PARTS, read_steps
from nbdist.tables import read_table
from tests.conftest import RunCell
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import STARTED, a_spec

TABLE = read_table(__file__, "accuracy")
CELL = """\
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    tests = TensorDataset(torch.randn(33, 8), torch.randn(33, 1))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    tests = DataLoader(tests, batch_size=8, sampler=DistributedSampler(tests, shuffle=False))
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * dist.get_world_size())
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        loss = sum(((model(x) - y) ** 2).sum() for x, y in tests)
    dist.all_reduce(loss)


main()  # its objects are gone at the end
"""


def record(facts: dict[str, Any], notes: object = ()) -> str:
    parts = dict.fromkeys(PARTS, 0.1)
    division = {"steps": 20, "seconds": 1.0, "samples": 640, "fetches": 20, "backwards": 20, "parts": parts}
    return json.dumps({"time": 1.0, "total": division, "recent": division, "facts": facts, "notes": notes})


def trained(folder: Path, ranks: int, case: dict[str, Any]) -> Trained:
    facts = TABLE["facts"] | (TABLE["two"] | case.get("two", {}) if ranks > 1 else case.get("one", {}))
    (folder / "steps.json").write_text(record(facts))
    known = read_steps(folder / "steps.json")
    assert known is not None
    return Trained(ranks, dict.fromkeys(range(ranks), known))


@pytest.mark.parametrize("case", TABLE["case"], ids=[case["name"] for case in TABLE["case"]])
def test_what_more_ranks_change_is_named(tmp_path: Path, case: dict[str, Any]) -> None:
    named = changes(trained(tmp_path, 1, case), trained(tmp_path, 2, case))

    assert [change.code for change in named] == case["changes"]
    assert all(change.text.zh != change.text.en for change in named)
    assert not named or named[0].text.en == case.get("text", named[0].text.en)
    assert not named or list(named[0].fixes) == case.get("fixes", list(named[0].fixes))
    assert changes(trained(tmp_path, 2, case), trained(tmp_path, 1, case)) == []
    assert changes(Trained(1, {}), trained(tmp_path, 2, case)) == []


def test_a_comparison_says_it_first(home: Path) -> None:
    runs = []
    for ranks, name in ((1, "one"), (2, "two")):
        run_id = f"20261120-141503-{name}-{'ab'[ranks - 1] * 4}"
        written = WrittenRun(home, a_spec(run_id=run_id, name=name, ranks=ranks)).happened(*STARTED)
        facts = TABLE["facts"] | (TABLE["two"] | {"lr_most": 0.1} if ranks > 1 else {})
        for rank in range(ranks):
            written.directory.rank(rank).steps.write_text(record(facts))
        runs.append((written.run, written.directory))

    comparison = compare(runs[::-1])

    text = comparison_text(comparison, "en", all_rows=False)
    title, sentence, *fixes = text.splitlines()[:4]
    assert title == "the training of A two-bbbb (2 ranks) differs from that of B (1 rank):"
    assert sentence.startswith("  1. a step has 64 samples of all ranks instead of 32")
    assert fixes == ["       lr=0.1 * dist.get_world_size()", "       batch_size=32 // dist.get_world_size()"]
    page = comparison_bundle(comparison, "zh", all_rows=False)["text/html"]
    assert "（2 个进程）的训练与 B（1 个进程）不同：\n  1. " in page
    (changed,) = comparison.to_dict(all_rows=True)["changed"]
    assert changed["run_id"] == runs[1][0].run_id
    assert changed["changes"][0]["code"] == "lr-kept"


def test_ranks_note_what_their_accuracy_depends_on(run_cell: RunCell) -> None:
    one, two = (run_cell(f"-n {ranks}", CELL, 120.0) for ranks in (1, 2))

    _, compared = compare([(run.run, run.directory) for run in (one, two)]).runs

    assert [change.code for change in compared.changes] == ["norm", "counted-twice"], two.logs(0)
