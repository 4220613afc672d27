"""The diagnosis of a run that failed or hangs, from what its ranks wrote and how they exited."""

from nbdist.diagnosis.exits import describe_exit
from nbdist.diagnosis.failure import diagnose, first_failure
from nbdist.diagnosis.known import Hint, hint
from nbdist.diagnosis.rank_failure import Failure, Group
from nbdist.diagnosis.report import failure_headline, failure_report

__all__ = [
    "Failure",
    "Group",
    "Hint",
    "describe_exit",
    "diagnose",
    "failure_headline",
    "failure_report",
    "first_failure",
    "hint",
]
