"""Names and numbers in a line: metrics, their phases, and their tags.

Tags are in lower case, with ``_`` for other characters than letters, digits and ``/``: ``Acc@1`` is
``acc_1``. Words that qualify a name stay: ``Avg Loss`` is ``avg_loss``. Of ``0.5 (0.6)`` the first counts (in
an evaluation the second, the mean), an array is its mean, ``9870/10000`` of an accuracy is 0.987, a
percentage stays, a number with a unit (``12ms``) is no metric."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

NAMES = 1024  # a program has few, and prints them in each line


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


METRICS = re.compile(
    r"loss(?:es)?\d*|[a-z]+loss|acc\d*|accu|accuracy|f1|f1score|auc|auroc|ppl|perplexity|map\d*|[a-z]?iou"
    r"|top[15]|rmse|mse|mae|bleu\d*|rouge\w?|wer|nll|psnr|reward|error_rate|err_rate"
)
"""One part of a name (parts are separated by ``_ / @ -``) that makes it a metric."""

COMPANIONS = re.compile(
    r"lr\d*|learning_rate|(?:\w+_)?grad_norm|gnorm|precision|recall|err|error|score|kl|entropy|dice"
    r"|fid|ssim|mrr|ndcg|mfu|tflops|throughput|ips|tps|(?:\w+_)?(?:toks?|tokens?|samples?|images?|imgs?|steps?)"
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

QUALIFIERS = _words("""
    train training val valid validation test eval evaluation dev avg average mean best running total global
    smoothed current final epoch batch lm mlm aux cls reg box mask kd ce gen disc generator discriminator
    actor critic policy value top-1 top-5 micro macro weighted balanced packet
""")
"""Words in front of a name that belong to it."""

# a name that ends in one of these needs the word in front of it: learning rate, grad norm, F1 score
TAILS = frozenset({"rate", "norm", "score"})


@lru_cache(NAMES)
def tag_of(name: str) -> str:
    return re.sub(r"[^a-z0-9/]+", "_", name.lower()).strip("_/")


@lru_cache(NAMES)
def is_metric(tag: str) -> bool:
    """Return whether a tag names a metric by itself."""
    if METRICS.fullmatch(tag):
        return True
    parts = re.split(r"[_/]", tag)
    if not NO_METRIC.isdisjoint(parts) and parts[0] not in ("total", "epoch", "batch"):
        return False
    if not NO_METRIC.isdisjoint(parts[1:]) or (parts[0] == "grad" and "norm" not in parts):
        return False
    return any(METRICS.fullmatch(part) for part in parts) or tag.endswith(("error_rate", "err_rate"))


@lru_cache(NAMES)
def is_companion(tag: str) -> bool:
    return COMPANIONS.fullmatch(tag) is not None


@lru_cache(NAMES)
def may_be_named(name: str) -> bool:
    """Return whether a name is a metric's or a companion's, or the last word of one."""
    return name in TAILS or is_metric(tag_of(name)) or is_companion(tag_of(name))


@lru_cache(NAMES)
def may_be_listed(tag: str) -> bool:
    if not tag or tag in NO_METRIC:
        return False
    return is_metric(tag) or is_companion(tag) or NO_METRIC.isdisjoint(re.split(r"[_/]", tag))


def has_metric(values: Mapping[str, float]) -> bool:
    return any(is_metric(tag) for tag in values)


_SPELLINGS = {
    "val": "val valid validation validating dev",
    "test": "test testing",
    "eval": "eval evaluation evaluating",
}
PHASES = {word: phase for phase, words in _SPELLINGS.items() for word in words.split()}
PHASE = re.compile(r"(?<![\w.-])(" + "|".join(PHASES) + r")(?![\w.-]*\w*[\w./])")


def phase_before(text: str) -> str:
    match = PHASE.search(text)
    return PHASES[match[1]] if match is not None else ""


@lru_cache(NAMES)
def phase_of(tag: str) -> str:
    return next((PHASES[part] for part in re.split(r"[_/]", tag) if part in PHASES), "")


def in_phase(values: Mapping[str, float], phase: str) -> Mapping[str, float]:
    """Put the phase into the tags of the metrics that do not name one."""
    if not phase:
        return values
    return {
        tag if phase_of(tag) or not is_metric(tag) else f"{phase}_{tag}": value
        for tag, value in values.items()
    }


_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:nan|inf)\b"
_VALUE = (
    r"(?:(?:np\.|numpy\.)?(?:tensor|array|float\d*|int\d*)\()?['\"]?"
    r"(?:(?P<deep>\[)?\[\s*(?P<many>[-+\d.e,\s]+?|[-+]?(?:nan|inf))\s*\](?(deep)\])"
    rf"|(?P<value>{_NUMBER}))(?:/(?P<of>\d+)\b)?"
    r"(?![\w:/*]|\.\d|-\d|,\d{3}\b|;\s*$|\s*[*+]\s*\w|\s*(?:[kmg]i?b|ms)\b)"
)
PAIR = re.compile(
    r"(?<![\w.\\/=-])(?<!::)(?P<name>@?[a-z][\w/-]*(?:@\d*\.?\d+)?)(?:\s?\(%\)|(?<=lr)\(\w+\))?"
    rf"(?P<by>\s*(?:=(?!=)|:|->|│)\s*|\s+(?:is|was)\s*:?\s*|\s+){_VALUE}",
)
ITEM = re.compile(rf"""['"](?P<name>[a-z][\w/@ .-]*)['"]\s*(?P<by>:)\s*{_VALUE}""")
_MEAN = re.compile(r"\s*\(\s*(-?\d+\.?\d*(?:e[-+]?\d+)?)\)")
_WORDS_BEFORE = re.compile(r"([a-z][\w-]*)\s+$")


def metrics_in(
    text: str, *, listed: bool, exact: bool = False, mean: bool = False
) -> Iterator[tuple[str, float]]:
    """Yield the pairs of a name and a number; ``listed`` admits unknown names. ``exact``: a number behind
    nothing but a space needs a decimal point. ``mean``: of ``0.5 (0.6)`` the second counts."""
    end, passed_on = 0, ""
    for pair in PAIR.finditer(text):
        name, before, end = pair["name"], text[end : pair.start()], pair.end()
        # only the first column of a table has names; a table of layers has types: CrossEntropyLoss
        if "│" in pair["by"] and text.count("│", 0, pair.start()) > 1:
            continue
        if not listed and not may_be_named(name):
            continue
        value = number(pair)
        if mean and (average := _MEAN.match(text, end)) is not None:
            value = float(average[1])
        if value is None or (exact and pair["by"].strip() in ("", "is", "was") and not _is_exact(pair)):
            continue
        # only a word and a space before the name can belong to it
        name, qualified = _with_words_before(name, before) if before.rstrip()[-1:].isalpha() else (name, "")
        tag = tag_of(name)
        if is_metric(tag) or is_companion(tag):
            if qualified:
                passed_on = qualified
            elif passed_on and is_metric(tag) and not phase_of(tag):
                tag = f"{passed_on}_{tag}"
            yield tag, value
        elif listed and pair["by"].strip() and may_be_listed(tag):
            yield tag, value


def _with_words_before(name: str, before: str) -> tuple[str, str]:
    """Return ``name`` with the words in front of it that belong to it, and the phase among these."""
    phase = ""
    for _ in range(3):
        word = _WORDS_BEFORE.search(before)
        if word is None or (word[1] not in QUALIFIERS and name not in TAILS):
            break
        if word[1] in PHASES or word[1] in ("train", "training"):
            phase = word[1]
        name, before = f"{word[1]}_{name}", before[: word.start()]
    return name, phase


def number(pair: re.Match[str]) -> float | None:
    try:
        if pair["many"] is not None:
            numbers = [float(word) for word in pair["many"].replace(",", " ").split()]
            return sum(numbers) / len(numbers)
        value = float(pair["value"].replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return None
    if pair["of"] is None:
        return value
    return value / float(pair["of"]) if "acc" in pair["name"] and float(pair["of"]) else None


def _is_exact(pair: re.Match[str]) -> bool:
    return pair["many"] is not None or pair["of"] is not None or bool(re.search(r"[.a-z]", pair["value"]))
