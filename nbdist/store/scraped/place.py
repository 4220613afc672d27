"""Where a line says that training stands."""

from __future__ import annotations

import re
from dataclasses import dataclass

EPOCH = re.compile(
    r"ep(?<![\w.]ep)(?:och)?(?:\(\w+\))?['\"]?\s*[:=#]?\s*[\[(]?\s*['\"]?(?P<epoch>\d+(?:\.\d+)?)"
    r"(?:\s*(?:/|of)\s*(?P<epochs>\d+))?",
)
_COUNTER = re.compile(
    r"(?<![\w./-])(?P<unit>global[_ ]step|num_updates|update|episode|step|iteration|iter"
    r"|batch(?:[_ ]?(?:idx|id|no))?)"
    r"(?:\(\w+\))?['\"]?\s*[:=#]?\s*[\[(]?\s*(?P<at>\d+)(?![\d.]*[a-z%]|\d*\.\d)(?:\s*/\s*(?P<of>\d+))?",
)
# where no word names the counter: [epoch, batch], [epoch/epochs][batch/batches], a line's start, [10/100]
_COUNTERS = (
    re.compile(r"^\s*\[\s*(?P<epoch>\d+),\s*(?P<at>\d+)\]"),
    re.compile(r"^\s*\[(?P<epoch>\d+)/(?P<epochs>\d+)\]\s*\[\s*(?P<at>\d+)/(?P<of>\d+)\]"),
    re.compile(r"^\]?\((?P<at>\d+)/(?P<of>\d+)\)"),
    re.compile(r"(?P<at>\d+)\s*/\s*(?P<of>\d+)\s+batches\b"),
    re.compile(r"^\s*(?P<at>\d+)/(?P<of>\d+)\s+(?:\[|\S*━|-\s|\d+m?s\s)"),
    re.compile(r"\[\s*(?P<at>\d+)\s*/\s*(?P<of>\d+)\s*(?:\]|\(\d)"),
    re.compile(r"^\s*\[(?P<at>\d+)\]\s+\S+[:=]"),
)
_OVER_ALL = re.compile(r"global|num_updates|update|episode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a line says that training stands: ``at`` of ``of``, counted by ``unit``, in an epoch.

    ``over_all``: the counter does not begin again with each epoch.
    """

    epoch: float | None = None
    epochs: int | None = None
    at: int | None = None
    of: int | None = None
    unit: str = ""
    over_all: bool = False


def place_in(text: str) -> Place:
    named = EPOCH.search(text)
    epoch = float(named["epoch"]) if named is not None else None
    epochs = int(named["epochs"]) if named is not None and named["epochs"] else None
    if (counter := _COUNTER.search(text)) is not None:
        return Place(
            epoch=epoch,
            epochs=epochs,
            at=int(counter["at"]),
            of=int(counter["of"]) if counter["of"] else None,
            unit=counter["unit"],
            over_all=_OVER_ALL.match(counter["unit"]) is not None,
        )
    # an epoch's own brackets are not those of a counter
    rest = text[named.end() :] if named is not None else text
    for pattern in _COUNTERS:
        if (found := pattern.search(rest)) is not None:
            said = found.groupdict()
            of = said.get("of")
            return Place(
                epoch=float(said["epoch"]) if "epoch" in said else epoch,
                epochs=int(said["epochs"]) if "epochs" in said else epochs,
                at=int(said["at"]),
                of=int(of) if of else None,
                unit="[]",
            )
    return Place(epoch=epoch, epochs=epochs)
