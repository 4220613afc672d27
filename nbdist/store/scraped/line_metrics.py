"""The metrics in a line of a training log, and the place of training.

A metric (``loss``, ``acc``, ``ppl``, …) with a number behind it is read. A setting (``lr``, ``grad_norm``,
throughput, …: COMPANIONS) is read beside a metric or behind a step; any other name only in a progress bar's
postfix, a dict, or a list joined by " - " or " | ", beside a metric. Configurations, calls and source code
are skipped, and all that is in doubt.

A line or bar passes its phase on: ``Test set: Average loss`` is ``test_average_loss``, ``val Loss: 0.2 Acc:
0.9`` is ``val_loss`` and ``val_acc``. No line is remembered; ``store.scraped.log`` counts steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nbdist.store.scraped.names import (
    ITEM,
    PAIR,
    PHASE,
    has_metric,
    in_phase,
    is_companion,
    may_be_listed,
    metrics_in,
    number,
    phase_before,
    tag_of,
)

EPOCH = re.compile(
    r"ep(?<![\w.]ep)(?:och)?(?:\(\w+\))?['\"]?\s*[:=#]?\s*[\[(]?\s*['\"]?(?P<epoch>\d+(?:\.\d+)?)"
    r"(?:\s*(?:/|of)\s*(?P<epochs>\d+))?",
)
_COUNTER = re.compile(
    r"(?<![\w./-])(?P<unit>global[_ ]step|num_updates|update|episode|step|iteration|iter"
    r"|batch(?:[_ ]?(?:idx|id|no))?)"
    r"(?:\(\w+\))?['\"]?\s*[:=#]?\s*[\[(]?\s*(?P<at>\d+)(?![\d.]*[a-z%]|\d*\.\d)(?:\s*/\s*(?P<of>\d+))?",
)
# counters without a word: [epoch, batch], [epoch/epochs][batch/batches], a line's start, [10/100]
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
class Progress:
    """The place of training by a line: ``at`` of ``of``, counted by ``unit`` in an epoch or ``over_all``."""

    epoch: float | None = None
    epochs: int | None = None
    at: int | None = None
    of: int | None = None
    unit: str = ""
    over_all: bool = False

    @property
    def on_the_way(self) -> bool:
        return self.at is not None and self.of is not None and self.at < self.of


def progress_in(text: str) -> Progress:
    named = EPOCH.search(text)
    # an epoch's own brackets are not those of a counter
    rest = text[named.end() :] if named is not None else text
    searched = (pattern.search(rest) for pattern in _COUNTERS)
    counter = _COUNTER.search(text) or next(filter(None, searched), None)
    words = {"unit": "[]"} if counter is not None else {"unit": ""}
    for match in filter(None, (named, counter)):
        words |= {name: value for name, value in match.groupdict().items() if value is not None}
    unit = words.pop("unit")
    places: dict[str, Any] = {
        name: float(word) if name == "epoch" else int(word) for name, word in words.items()
    }
    return Progress(**places, unit=unit, over_all=_OVER_ALL.match(unit) is not None)


CUES = tuple(
    cue.encode()
    for cue in "loss acc epoch step iter eval ppl auc reward mse psnr valid_ 损失".split()  # noqa: SIM905
)
"""A line without any of these, in small letters, is skipped, so that ordinary lines are cheap."""

_LONGEST = 4096
_CHINESE = (
    ("训练", " train "),
    ("验证", " val "),
    ("测试", " test "),
    ("损失", " loss "),
    ("准确率", " acc "),
    ("学习率", " lr "),
    ("轮次", " epoch "),
    ("\uff1a", ":"),
    ("\uff0c", ","),
)
_WRITTEN_OTHERWISE = (("avg. ", "avg "), ("cur metric,", "eval "), ("loss train:", "train loss:"))
_DICT = re.compile(r"\{[^{}]*\}")
_LISTED = re.compile(r" - | \| ")
_BAR = re.compile(
    r"(?P<about>[^\r\n|]*?)(?::\s+|^\s*)(?:\d+%\|[^|]*\|\s*|\|[^|]*\|\s*)?"
    r"(?P<at>\d+)(?:/(?P<of>\d+|\?)|[a-z]+)\s+\[(?:\d+:)?\d+:\d+(?:<[^,\]]*)?,\s*[^,\]]*"
    r"(?:,\s*(?P<postfix>(?:[^\[\]]|\[[^\[\]]*\])*))?\]",
)
"""tqdm's bar, also in Lightning and Hugging Face."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08+")
_RICH_BAR = re.compile(
    r"\s*(?P<about>[^━╸╺]*?)\s*[━╸╺ ]+(?P<at>\d+)/(?P<of>\d+)\s+\d+:\d\d:\d\d • [\d:-]+\s+[\d.]+it/s"
    r"(?P<postfix>.*)"
)
"""Lightning's bar with rich; it counts epochs from 0, to the last of them."""
_WRAPPED = re.compile(r"\s{8,}(?:[a-z][\w/@.-]*:\s*[-+.\de]+\s*)+$")
_CALL = re.compile(r"\w\((?<!tensor\()(?<!array\()\w+=")
_CODE = re.compile(r"\s*(?:file \"|>>>|def |class |import |from |print\(|return\b)")
# a line without any of these has no metric
_NAMED = re.compile(
    r"loss|acc|f1|auc|auroc|ppl|perplexity|map|iou|top[15]|rmse|mse|mae|bleu|rouge|wer|nll|psnr|reward"
    r"|err(?:or)?_rate|lr|learning|gnorm|norm"
)
_CONFIGURED = re.compile(
    r"(?<![\w/-])(?:(?:batch|hidden|world|vocab|image|patch|block)[_-](?:size|dim)|weight[_-]decay"
    r"|(?:num|max|n)[_-](?![\w-]*(?:tokens|seen|samples|examples|steps|updates))\w+"
    r"|momentum|seed|dropout|optimizer|epochs|warmup\w*|gradient_accumulation\w*|save_\w+|log_\w+"
    r"|output_dir|resume|device|dtype|betas|eps|cosine\w*|fp16|bf16)['\"]?\s*[:=](?!=)",
)
_IN_CIFAR = re.compile(r"accuracy of the (?:network|model) on the [\d,]+ test images:\s*(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The content of one line. ``phase`` is "val", "test" or "eval" where its numbers are not training's.
    ``bar`` describes a progress bar, whose next state replaces this one; None for a line."""

    values: Mapping[str, float]
    progress: Progress = field(default_factory=Progress)
    phase: str = ""
    bar: str | None = None

    @property
    def lacks_step(self) -> bool:
        """Return whether it has numbers of an epoch, and no step."""
        return bool(self.values) and self.progress.epoch is not None and self.progress.at is None

    def at_step(self, at: int, of: int) -> Reading:
        """Return it at a step that is counted over all epochs."""
        return replace(self, progress=replace(self.progress, at=at, of=of, unit="over all", over_all=True))


def lines_with_cues(data: bytes) -> list[tuple[int, int]]:
    """Return start and end (before the newline) of the lines of ``data`` that may have metrics."""
    small = data.lower()
    ends: dict[int, int] = {}
    for cue in CUES:
        at = small.find(cue)
        while at >= 0:
            end = small.find(b"\n", at)
            end = end if end >= 0 else len(data)
            ends[small.rfind(b"\n", 0, at) + 1] = end
            at = small.find(cue, end)
    return sorted(ends.items())


def read_line(line: str, *, phase: str = "") -> Reading | None:
    """Parse ``line``; None without content. ``phase`` is that of the lines before it. A line with an epoch
    and no metric is a Reading without values."""
    if len(line) > _LONGEST:
        return None
    text = plain(line).lower()
    for written, meant in _WRITTEN_OTHERWISE:
        text = text.replace(written, meant)
    if (bar := _bar(text)) is not None:
        return _of_bar(bar, phase)
    named = _NAMED.search(text) is not None
    if _is_of_no_curve(text) or (not named and "epoch" not in text):
        return None
    if _CODE.match(text) or ("=" in text and "(" in text and _CALL.search(text)):
        return None
    progress = progress_in(text)
    values: Mapping[str, float] = {}
    if named and (items := _DICT.search(text)) is not None:
        values = _of_dict(text, items[0], progress)
        phase = phase or phase_before(text[: items.start()])
    elif named:
        values, phase = _of_text(text, progress, phase)
    if not values and progress.epoch is None:
        return None
    return Reading(values=in_phase(values, phase), progress=progress, phase=phase)


def _is_of_no_curve(text: str) -> bool:
    """Match W&B's summary, the best so far, an epoch's mean, and a bar of tests that look like training."""
    if text.startswith("wandb:") or "best metric" in text or "| tot: " in text:
        return True
    return "[avg]" in text and "[train]" in text


def read_wrapped(line: str, above: Reading) -> Reading | None:
    """Parse a line that goes on with the bar above it, where rich had no more room."""
    text = plain(line).lower()
    if _WRAPPED.match(text) is None:
        return None
    values = dict(metrics_in(text, listed=True))
    return replace(above, values=in_phase(values, above.phase), bar=f"{above.bar} …")


def plain(line: str) -> str:
    """Return ``line`` without escape sequences, and in English."""
    if "\x1b" in line or "\x08" in line:
        line = _ANSI.sub("", line)
    if not line.isascii():
        for chinese, english in _CHINESE:
            line = line.replace(chinese, english)
    return line


def _bar(text: str) -> re.Match[str] | None:
    if "[" in text and ("/s" in text or "s/" in text) and (bar := _BAR.match(text)) is not None:
        return bar
    return _RICH_BAR.match(text) if "━" in text else None


def _of_bar(bar: re.Match[str], phase: str) -> Reading | None:
    about = bar["about"].strip()
    named = EPOCH.search(about)
    progress = Progress(
        epoch=float(named["epoch"]) if named else None,
        epochs=int(named["epochs"]) + (bar.re is _RICH_BAR) if named and named["epochs"] else None,
        at=int(bar["at"]),
        of=int(bar["of"]) if (bar["of"] or "?") != "?" else None,
        unit="bar",
    )
    phase = phase_before(about) or phase
    # the description may hold the metrics too: "loss 0.0612:  48%|…"
    values = dict(metrics_in(f"{about}, {bar['postfix'] or ''}", listed=True))
    if not has_metric(values):
        values = {}
    return Reading(values=in_phase(values, phase), progress=progress, phase=phase, bar=about)


def _of_dict(text: str, items: str, progress: Progress) -> dict[str, float]:
    if progress == Progress() and _CONFIGURED.search(text):
        return {}
    pairs = ((tag_of(item["name"]), number(item)) for item in ITEM.finditer(items))
    values = {tag: value for tag, value in pairs if value is not None and may_be_listed(tag)}
    return values if has_metric(values) else {}


def _of_text(text: str, progress: Progress, phase: str) -> tuple[dict[str, float], str]:
    """Return the metrics of a line of words, and their phase."""
    counted = progress.at is not None
    placed = counted or progress.epoch is not None
    if (match := _IN_CIFAR.search(text)) is not None:
        return {"test_accuracy": float(match[1])}, phase or "test"
    listed = len(_LISTED.findall(text)) > 1
    values = dict(metrics_in(text, listed=listed, exact=not placed))
    if not has_metric(values):
        # a step and a companion are enough, an unknown name is not
        values = {tag: value for tag, value in values.items() if counted and is_companion(tag)}
    if not values:
        return {}, phase
    if (not counted and _CONFIGURED.search(text)) or (
        # a sentence, or indented like the source under a traceback
        not placed and (text.startswith("    ") or len(re.findall(r"[a-z]{3,}", text)) > 12)
    ):
        return {}, phase
    if not phase and PHASE.search(text) and (first := PAIR.search(text)) is not None:
        phase = phase_before(text[: first.start()])
    if phase and counted and "(" in text:
        values |= metrics_in(text, listed=listed, mean=True)
    return values, phase
