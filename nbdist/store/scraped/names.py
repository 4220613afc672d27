"""Which names are metrics, and the tags that are made of names.

Tags: lower case, what is no letter or digit becomes ``_`` (``/`` stays): ``Acc@1`` is ``acc_1``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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

QUALIFIERS = _words("""
    train training val valid validation test eval evaluation dev avg average mean best running total global
    smoothed current final epoch batch lm mlm aux cls reg box mask kd ce gen disc generator discriminator
    actor critic policy value top-1 top-5 micro macro weighted balanced packet
""")
"""What a word in front of a name may be, to belong to it."""

# a name that ends in one of these is one with the word in front of it: learning rate, grad norm, F1 score
TAILS = frozenset({"rate", "norm", "score"})


@lru_cache(NAMES)
def tag_of(name: str) -> str:
    """``name`` as a tag."""
    return re.sub(r"[^a-z0-9/]+", "_", name.lower()).strip("_/")


@lru_cache(NAMES)
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


@lru_cache(NAMES)
def is_companion(tag: str) -> bool:
    return COMPANIONS.fullmatch(tag) is not None


@lru_cache(NAMES)
def may_be_named(name: str) -> bool:
    """Whether a name is a metric's or a companion's, or the last word of one."""
    return name in TAILS or is_metric(tag_of(name)) or is_companion(tag_of(name))


@lru_cache(NAMES)
def may_be_listed(tag: str) -> bool:
    if not tag or tag in NO_METRIC:
        return False
    return is_metric(tag) or is_companion(tag) or NO_METRIC.isdisjoint(re.split(r"[_/]", tag))


def has_metric(values: Mapping[str, float]) -> bool:
    return any(is_metric(tag) for tag in values)
