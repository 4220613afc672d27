"""Which host this is, and what of nbdist works on it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nbdist.doctor.report import Entry, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A kind of place that notebooks run in, how it is known, and what works there."""

    name: str
    variables: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    works: str
    works_zh: str

    def is_here(self, environ: Mapping[str, str], root: Path) -> bool:
        return any(name in environ for name in self.variables) or any(
            (root / path).exists() for path in self.paths
        )


HOSTS = (
    Host(
        name="AI Studio",
        paths=("home/aistudio",),
        works="runs, panel, Stop by the kernel's interrupt; curves through …/api_serving/PORT/ : set "
        "NBDIST_PROXY_URL where the link does not open",
        works_zh="运行、面板、用中断内核停止；曲线经 …/api_serving/端口/ 打开，打不开时设置 NBDIST_PROXY_URL",
    ),
    Host(
        name="Colab",
        variables=("COLAB_RELEASE_TAG", "COLAB_GPU"),
        works="runs and panel; Stop by the platform's own interrupt; no server extension, so no dashboard",
        works_zh="运行和面板；用平台自己的中断来停止；没有服务器扩展，因此没有总览页",
    ),
    Host(
        name="Kaggle",
        variables=("KAGGLE_KERNEL_RUN_TYPE", "KAGGLE_URL_BASE"),
        works="runs; the panel where the editor draws widgets, else text (--no-panel); no dashboard",
        works_zh="运行；编辑器支持组件时有面板，否则为文本（--no-panel）；没有总览页",
    ),
    Host(
        name="JupyterHub",
        variables=("JUPYTERHUB_SERVICE_PREFIX", "JUPYTERHUB_USER"),
        works="everything; links carry the hub's prefix",
        works_zh="全部功能；链接带有 hub 的前缀",
    ),
    Host(
        name="VS Code",
        variables=("VSCODE_PID", "VSCODE_CWD", "VSCODE_IPC_HOOK_CLI"),
        works="runs and panel; after a reload the summary, and %dist_attach for the panel; no dashboard",
        works_zh="运行和面板；重新加载后显示静态摘要，用 %dist_attach 重新显示面板；没有总览页",
    ),
    Host(
        name="Slurm job",
        variables=("SLURM_JOB_ID",),
        works="runs on what the job was given; they end with the job",
        works_zh="在作业分到的资源上运行；作业结束时一并结束",
    ),
    Host(
        name="container",
        variables=("KUBERNETES_SERVICE_HOST",),
        paths=(".dockerenv", "run/.containerenv"),
        works="everything; mind /dev/shm and the memory limit below",
        works_zh="全部功能；注意下面的 /dev/shm 和内存限制",
    ),
)


def examine_host(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Iterator[Entry]:
    yield _system(root)
    for host in HOSTS:
        if host.is_here(environ, root):
            yield Entry(
                section="host", title=host.name, level=Level.INFO, what=host.works, what_zh=host.works_zh
            )


def _system(root: Path) -> Entry:
    name = f"{platform.system()} {platform.release()} {platform.machine()}"
    if sys.platform == "darwin":
        return Entry(
            section="host",
            title="system",
            level=Level.WARNING,
            what=f"{name}: CPU ranks; its kernel has neither parent-death signals nor subreapers",
            fix="after a crash of the kernel look for what is left with  %dist_status",
            what_zh=f"{name}：CPU 进程；系统没有父进程死亡信号和 subreaper",
            fix_zh="内核崩溃后用  %dist_status  查看是否有残留",
        )
    try:
        wsl = "microsoft" in (root / "proc/version").read_text().lower()
    except OSError:
        wsl = False
    return Entry(section="host", title="system", level=Level.OK, what=f"{name} (WSL)" if wsl else name)
