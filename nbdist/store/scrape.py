"""What a line of a training log says: its metrics, and where training stands.

A line is read where it names a metric (``loss``, ``acc``, ``ppl``, …) and a number behind it. A setting
(``lr``, ``grad_norm``, throughput, …: COMPANIONS) is read beside a metric or behind a step; any other
name only in a progress bar's postfix, a dict, or a list joined by " - " or " | ", and only where a metric
stands in it too. What looks like a configuration, a call or source code says nothing. In doubt: nothing.

Tags: lower case, what is no letter or digit becomes ``_`` (``/`` stays): ``Acc@1`` is ``acc_1``. Words in
front that qualify stay: ``Avg Loss`` is ``avg_loss``. A line or bar that says whose numbers it has passes
that on: ``Test set: Average loss`` is ``test_average_loss``, ``val Loss: 0.2 Acc: 0.9`` is ``val_loss``
and ``val_acc``. Of ``0.5 (0.6)`` the first is taken, an array is its mean, ``9870/10000`` of an accuracy
is 0.987, a percentage stays as it is written, a number with a unit (``12ms``) is no metric.

Nothing here remembers a line; steps are counted in ``scraped``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

CUES = (b"loss", b"acc", b"epoch", b"step", b"iter", b"eval", b"ppl", b"auc", b"reward", "损失".encode())
"""A line without any of these, in small letters, is not looked at: what makes ordinary lines cheap."""

_LONGEST = 4096
_NAMES = 1024  # a program has few, and prints them in each line


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ---- the words ----

METRICS = re.compile(
    r"loss(?:es)?\d*|[a-z]+loss|acc\d*|accu|accuracy|f1|f1score|auc|auroc|ppl|perplexity|map\d*|[a-z]?iou"
    r"|top[15]|rmse|mse|mae|bleu\d*|rouge\w?|wer|nll|psnr|reward|error_rate|err_rate"
)
"""One part of a name (parts are separated by ``_ / @ -``) that makes it a metric."""

COMPANIONS = re.compile(
    r"lr\d*|learning_rate|(?:\w+_)?grad_norm|gnorm|precision|recall|err|error|score|kl|entropy|dice"
    r"|fid|ssim|mrr|ndcg|mfu|tflops|throughput|ips|tps|(?:\w+_)?(?:tokens?|samples?|images?|imgs?|steps?)"
    r"(?:_per_|/)s(?:ec(?:ond)?)?"
)
"""A whole tag that is read where a metric, or a step, stands in the same line."""

NO_METRIC = _words("""
    weight weights coef coeff scale fn func function type name threshold thresh target lambda alpha beta
    gamma margin base init initial warmup decay scheduler factor patience smoothing steps epochs every freq
    interval clip mult ratio limit tol size max min packet check time runtime cost eta elapsed remaining date
    day ms sec mem memory v_num epoch step iter iteration batch rank local_rank world id pid port version seed
    num count total consumed skipped samples iterations lineno line node
""")
"""A name with such a part is a setting, a counter or a clock. (``best_acc`` and ``avg_loss`` are metrics.)"""

_QUALIFIERS = _words("""
    train training val valid validation test eval evaluation dev avg average mean best running total global
    smoothed current final epoch batch lm mlm aux cls reg box mask kd ce gen disc generator discriminator
    actor critic policy value top-1 top-5 micro macro weighted balanced packet
""")
_PHASES = {
    "val": "val",
    "valid": "val",
    "validation": "val",
    "validating": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
    "eval": "eval",
    "evaluation": "eval",
    "evaluating": "eval",
}
# a name that ends in one of these is one with the word in front of it: learning rate, grad norm, F1 score
_TAILS = frozenset({"rate", "norm", "score"})
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

# ---- the patterns ----

_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:nan|inf)\b"
_VALUE = (
    r"(?:(?:np\.|numpy\.)?(?:tensor|array|float\d*|int\d*)\()?['\"]?"
    r"(?:(?P<deep>\[)?\[\s*(?P<many>[-+\d.e,\s]+?|[-+]?(?:nan|inf))\s*\](?(deep)\])"
    rf"|(?P<value>{_NUMBER}))(?:/(?P<of>\d+)\b)?"
    r"(?![\w:/*]|\.\d|,\d{3}\b|;\s*$|\s*[*+]\s*\w|\s*(?:[kmg]i?b|ms)\b)"
)
_PAIR = re.compile(
    r"(?<![\w.\\/=-])(?P<name>@?[a-z][\w/-]*(?:@\d*\.?\d+)?)(?:\s?\(%\))?"
    rf"(?P<by>\s*(?:=(?!=)|:|->|│)\s*|\s+(?:is|was)\s*:?\s*|\s+){_VALUE}",
)
_ITEM = re.compile(rf"""['"](?P<name>[a-z][\w/@ .-]*)['"]\s*(?P<by>:)\s*{_VALUE}""")
_DICT = re.compile(r"\{[^{}]*\}")
_LISTED = re.compile(r" - | \| ")

_BAR = re.compile(
    r"(?P<about>[^\r\n|]*?)(?::\s+|^\s*)(?:\d+%\|[^|]*\|\s*|\|[^|]*\|\s*)?"
    r"(?P<at>\d+)(?:/(?P<of>\d+|\?)|[a-z]+)\s+\[(?:\d+:)?\d+:\d+(?:<[^,\]]*)?,\s*[^,\]]*"
    r"(?:,\s*(?P<postfix>(?:[^\[\]]|\[[^\[\]]*\])*))?\]",
)
"""tqdm's bar, Lightning's and Hugging Face's with it."""

_EPOCH = re.compile(
    r"ep(?<![\w.]ep)(?:och)?(?:\(\w+\))?['\"]?\s*[:=#]?\s*[\[(]?\s*['\"]?(?P<epoch>\d+(?:\.\d+)?)"
    r"(?:\s*(?:/|of)\s*(?P<epochs>\d+))?",
)
_COUNTER = re.compile(
    r"(?<![\w.-])(?P<unit>global[_ ]step|num_updates|update|episode|step|iteration|iter"
    r"|batch(?:[_ ]?(?:idx|id|no))?)"
    r"(?:\(\w+\))?['\"]?\s*[:=#]?\s*[\[(]?\s*(?P<at>\d+)(?![\d.]*[a-z%])(?:\s*/\s*(?P<of>\d+))?",
)
# where no word names the counter: [epoch, batch], a line's start, [10/100]
_COUNTERS = (
    re.compile(r"^\s*\[(?P<epoch>\d+),\s*(?P<at>\d+)\]"),
    re.compile(r"^\s*(?P<at>\d+)/(?P<of>\d+)\s+(?:\[|\S*━|-\s|\d+m?s\s)"),
    re.compile(r"\[\s*(?P<at>\d+)\s*/\s*(?P<of>\d+)\s*(?:\]|\(\d)"),
    re.compile(r"^\s*\[(?P<at>\d+)\]\s+\S+[:=]"),
)
_OVER_ALL = re.compile(r"global|num_updates|update|episode")

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08+")
_CALL = re.compile(r"\w\((?<!tensor\()(?<!array\()\w+=")
_CODE = re.compile(r"\s*(?:file \"|>>>|def |class |import |from |print\(|return\b)")
# a line without any of these has no metric, whatever stands in it
_NAMED = re.compile(
    r"loss|acc|f1|auc|auroc|ppl|perplexity|map|iou|top[15]|rmse|mse|mae|bleu|rouge|wer|nll|psnr|reward"
    r"|err(?:or)?_rate|lr|learning|gnorm|norm"
)
_CONFIGURED = re.compile(
    r"(?<![\w-])(?:(?:batch|hidden|world|vocab|image|patch|block)[_-](?:size|dim)|num[_-]\w+|weight[_-]decay"
    r"|momentum|seed|dropout|optimizer|epochs|max[_-]\w+|warmup\w*|gradient_accumulation\w*|save_\w+|log_\w+"
    r"|output_dir|resume|device|dtype|betas|eps|n_\w+|cosine\w*|fp16|bf16)['\"]?\s*[:=](?!=)",
)
_PHASE = re.compile(r"(?<![\w.-])(" + "|".join(_PHASES) + r")(?![\w.-]*\w*[\w./])")
_WORDS_BEFORE = re.compile(r"([a-z][\w-]*)\s+$")
_IN_CIFAR = re.compile(r"accuracy of the (?:network|model) on the [\d,]+ test images:\s*(\d+(?:\.\d+)?)\s*%")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one line says. ``phase`` is "val", "test" or "eval" where its numbers are not training's.

    ``bar`` is the description of a progress bar, whose next state replaces this one; None for a line.
    """

    values: Mapping[str, float]
    place: Place = field(default_factory=Place)
    phase: str = ""
    bar: str | None = None


def lines_with_cues(data: bytes) -> list[tuple[int, int]]:
    """Where the lines of ``data`` lie that may say something: start and end, without the newline."""
    small = data.lower()
    found: dict[int, int] = {}
    for cue in CUES:
        at = small.find(cue)
        while at >= 0:
            end = small.find(b"\n", at)
            if end < 0:
                end = len(data)
            found[small.rfind(b"\n", 0, at) + 1] = end
            at = small.find(cue, end)
    return sorted(found.items())


def read_line(line: str, *, phase: str = "") -> Reading | None:
    """What ``line`` says; None when that is nothing. ``phase`` is that of the lines before it.

    A line with an epoch and no metric is a Reading without values.
    """
    if len(line) > _LONGEST:
        return None
    text = _plain(line).lower()
    if "[" in text and ("/s" in text or "s/" in text) and (bar := _BAR.match(text)) is not None:
        return _of_bar(bar, phase)
    named = _NAMED.search(text) is not None
    if not named and "epoch" not in text:
        return None
    if _CODE.match(text) or ("=" in text and "(" in text and _CALL.search(text)):
        return None
    place = _place(text)
    values: Mapping[str, float] = {}
    if named and (items := _DICT.search(text)) is not None:
        values = _of_dict(text, items[0])
        phase = phase or _phase_before(text[: items.start()])
    elif named:
        values, phase = _of_text(text, place, phase)
    if not values and place.epoch is None:
        return None
    return Reading(values=_in_phase(values, phase), place=place, phase=phase)


@lru_cache(_NAMES)
def tag_of(name: str) -> str:
    """``name`` as a tag."""
    return re.sub(r"[^a-z0-9/]+", "_", name.lower()).strip("_/")


def _plain(line: str) -> str:
    if "\x1b" in line or "\x08" in line:
        line = _ANSI.sub("", line)
    if not line.isascii():
        for chinese, english in _CHINESE:
            line = line.replace(chinese, english)
    return line


def _of_bar(bar: re.Match[str], phase: str) -> Reading | None:
    about = bar["about"].strip()
    named = _EPOCH.search(about)
    place = Place(
        epoch=float(named["epoch"]) if named else None,
        epochs=int(named["epochs"]) if named and named["epochs"] else None,
        at=int(bar["at"]),
        of=int(bar["of"]) if (bar["of"] or "?") != "?" else None,
        unit="bar",
    )
    phase = _phase_before(about) or phase
    # the description may hold the metrics too: "loss 0.0612:  48%|…"
    values = dict(_metrics(f"{about}, {bar['postfix'] or ''}", listed=True))
    if not _has_metric(values):
        values = {}
    return Reading(values=_in_phase(values, phase), place=place, phase=phase, bar=about)


def _of_dict(text: str, items: str) -> dict[str, float]:
    if _CONFIGURED.search(text):
        return {}
    pairs = ((tag_of(found["name"]), _number(found)) for found in _ITEM.finditer(items))
    values = {tag: value for tag, value in pairs if value is not None and _may_be_listed(tag)}
    return values if _has_metric(values) else {}


def _of_text(text: str, place: Place, phase: str) -> tuple[dict[str, float], str]:
    """The metrics of a line of words, and whose they are."""
    counted = place.at is not None
    told = counted or place.epoch is not None
    if (found := _IN_CIFAR.search(text)) is not None:
        return {"test_accuracy": float(found[1])}, phase or "test"
    listed = len(_LISTED.findall(text)) > 1
    values = dict(_metrics(text, listed=listed, exact=not told))
    if not _has_metric(values):
        # a step and a companion are enough, a name that nobody knows is not
        values = {tag: value for tag, value in values.items() if counted and _is_companion(tag)}
    if not values:
        return {}, phase
    if (not counted and _CONFIGURED.search(text)) or (not told and _is_prose(text)):
        return {}, phase
    if not phase and _PHASE.search(text) and (first := _PAIR.search(text)) is not None:
        phase = _phase_before(text[: first.start()])
    return values, phase


def _metrics(text: str, *, listed: bool, exact: bool = False) -> Iterator[tuple[str, float]]:
    """The pairs of a name and a number, in which ``listed`` lets names in that are not known.

    ``exact``: a number behind nothing but a space needs a decimal point.
    """
    end, passed_on = 0, ""
    for found in _PAIR.finditer(text):
        name, before, end = found["name"], text[end : found.start()], found.end()
        if not listed and not _may_be_named(name):
            continue
        value = _number(found)
        if value is None or (exact and not found["by"].strip() and not _is_exact(found)):
            continue
        # only a word that a space parts from the name can belong to it
        name, qualified = _with_words_before(name, before) if before.rstrip()[-1:].isalpha() else (name, "")
        tag = tag_of(name)
        if is_metric(tag) or _is_companion(tag):
            if qualified:
                passed_on = qualified
            elif passed_on and is_metric(tag) and not _phase_of(tag):
                tag = f"{passed_on}_{tag}"
            yield tag, value
        elif listed and found["by"].strip() and _may_be_listed(tag):
            yield tag, value


def _with_words_before(name: str, before: str) -> tuple[str, str]:
    """``name`` with the words in front of it that belong to it, and the phase among these."""
    phase = ""
    for _ in range(3):
        word = _WORDS_BEFORE.search(before)
        if word is None:
            break
        if word[1] not in _QUALIFIERS and name not in _TAILS:
            break
        if word[1] in _PHASES or word[1] in ("train", "training"):
            phase = word[1]
        name, before = f"{word[1]}_{name}", before[: word.start()]
    return name, phase


@lru_cache(_NAMES)
def is_metric(tag: str) -> bool:
    """Whether a tag names a metric by itself."""
    if METRICS.fullmatch(tag):
        return True
    parts = re.split(r"[_/]", tag)
    if not NO_METRIC.isdisjoint(parts) and parts[0] not in ("total", "epoch", "batch"):
        return False
    if not NO_METRIC.isdisjoint(parts[1:]) or (parts[0] == "grad" and "norm" not in parts):
        return False
    return any(METRICS.fullmatch(part) for part in parts) or tag.endswith(("error_rate", "err_rate"))


@lru_cache(_NAMES)
def _may_be_named(name: str) -> bool:
    """Whether a name is a metric's or a companion's, or the last word of one."""
    return name in _TAILS or is_metric(tag_of(name)) or _is_companion(tag_of(name))


@lru_cache(_NAMES)
def _is_companion(tag: str) -> bool:
    return COMPANIONS.fullmatch(tag) is not None


@lru_cache(_NAMES)
def _may_be_listed(tag: str) -> bool:
    if not tag or tag in NO_METRIC:
        return False
    return is_metric(tag) or _is_companion(tag) or NO_METRIC.isdisjoint(re.split(r"[_/]", tag))


def _has_metric(values: Mapping[str, float]) -> bool:
    return any(is_metric(tag) for tag in values)


def _number(found: re.Match[str]) -> float | None:
    try:
        if found["many"] is not None:
            numbers = [float(word) for word in found["many"].replace(",", " ").split()]
            return sum(numbers) / len(numbers)
        value = float(found["value"].replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return None
    if found["of"] is None:
        return value
    return value / float(found["of"]) if "acc" in found["name"] and float(found["of"]) else None


def _is_exact(found: re.Match[str]) -> bool:
    return found["many"] is not None or found["of"] is not None or bool(re.search(r"[.a-z]", found["value"]))


def _place(text: str) -> Place:
    named = _EPOCH.search(text)
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
                epochs=epochs,
                at=int(said["at"]),
                of=int(of) if of else None,
                unit="[]",
            )
    return Place(epoch=epoch, epochs=epochs)


def _phase_before(text: str) -> str:
    found = _PHASE.search(text)
    return _PHASES[found[1]] if found is not None else ""


@lru_cache(_NAMES)
def _phase_of(tag: str) -> str:
    return next((_PHASES[part] for part in re.split(r"[_/]", tag) if part in _PHASES), "")


def _in_phase(values: Mapping[str, float], phase: str) -> Mapping[str, float]:
    """Whose numbers they are goes into the tags of the metrics that do not say so."""
    if not phase:
        return values
    return {
        tag if _phase_of(tag) or not is_metric(tag) else f"{phase}_{tag}": value
        for tag, value in values.items()
    }


def _is_prose(text: str) -> bool:
    """Whether a line that tells no step is a sentence, or indented as the source under a traceback is."""
    return text.startswith("    ") or len(re.findall(r"[a-z]{3,}", text)) > 12
