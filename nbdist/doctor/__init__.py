"""What this machine and this notebook can do, what is missing, and how to mend it.

Every probe yields entries and may fail or hang without harm to the others; nothing is imported here that
a kernel should not have (frameworks are asked in processes of their own).
"""

from nbdist.doctor.cluster import ENGINES, ClusterRequest, examine_cluster
from nbdist.doctor.examination import Probe, examine, examine_mended
from nbdist.doctor.installed import repair
from nbdist.doctor.report import Entry, Level, Report, report_bundle, report_text

__all__ = [
    "ENGINES",
    "ClusterRequest",
    "Entry",
    "Level",
    "Probe",
    "Report",
    "examine",
    "examine_cluster",
    "examine_mended",
    "repair",
    "report_bundle",
    "report_text",
]
