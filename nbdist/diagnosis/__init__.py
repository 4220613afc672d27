"""What went wrong in a run, from what its ranks wrote and how they exited."""

from nbdist.diagnosis.exits import describe_exit
from nbdist.diagnosis.failure import Failure, first_failure
from nbdist.diagnosis.report import failure_headline, failure_report

__all__ = [
    "Failure",
    "describe_exit",
    "failure_headline",
    "failure_report",
    "first_failure",
]
