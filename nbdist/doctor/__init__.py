"""Examination of this machine and notebook: what works, what is missing, and the fix.

A probe yields entries; one that fails or hangs harms no other. The kernel imports no framework: each is
imported in a process of its own.
"""

from nbdist.doctor.cluster import ENGINES, ClusterRequest, examine_cluster
from nbdist.doctor.examination import Probe, examine, examine_mended
from nbdist.doctor.examination_report import Entry, Level, Report, report_bundle, report_text
from nbdist.doctor.installed import repair

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
