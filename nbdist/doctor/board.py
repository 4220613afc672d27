"""VisualDL: whether it is there in a version that nbdist's server knows how to start."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from nbdist.diagnosis.checks.builds import version_of
from nbdist.diagnosis.checks.removed import at_least
from nbdist.doctor.report import Entry, Level

_LEAST, _BELOW = "2.5.3", "2.6"


def examine_board(environ: Mapping[str, str] = os.environ, *, version: str | None = None) -> Iterator[Entry]:
    version = version_of("visualdl") if version is None else version
    if not version or find_spec("visualdl") is None:
        level, what, what_zh = Level.ERROR, "VisualDL is not installed", "没有安装 VisualDL"
    elif not at_least(version, _LEAST) or at_least(version, _BELOW):
        level = Level.ERROR
        what, what_zh = (
            f"VisualDL {version} is not one that nbdist knows",
            f"nbdist 不支持 VisualDL {version}",
        )
    else:
        level, what, what_zh = Level.OK, f"VisualDL {version}", f"VisualDL {version}"
    yield Entry(
        section="board",
        title="VisualDL",
        level=level,
        what=what,
        what_zh=what_zh,
        fix="" if level is Level.OK else f'%pip install "visualdl>={_LEAST},<{_BELOW}"',
    )
    if url := environ.get("NBDIST_PROXY_URL"):
        good = "%PORT%" in url
        yield Entry(
            section="board",
            title="NBDIST_PROXY_URL",
            level=Level.OK if good else Level.ERROR,
            what=url if good else f"{url} does not say where the port goes",
            what_zh=url if good else f"{url} 没有写端口的位置",
            fix="" if good else "%env NBDIST_PROXY_URL=/api_serving/%PORT%/",
        )
