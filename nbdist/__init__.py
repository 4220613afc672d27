"""Multi-rank training runs from a notebook cell: ``%load_ext nbdist``, then ``%%distributed -n 2``."""

from __future__ import annotations

from nbdist.importing import import_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nbdist.magics.run_call import resume, run
    from nbdist.runner import attach, runs, sweep
    from nbdist.runner.handle import history
    from nbdist.version import __version__
    from nbdist.worker.checkpoints import attempt, checkpoint, checkpoint_dir, latest_checkpoint, saving
    from nbdist.worker.limit import should_stop
    from nbdist.worker.media import (
        log_audio,
        log_embedding,
        log_histogram,
        log_image,
        log_pr_curve,
        log_roc_curve,
        log_text,
    )
    from nbdist.worker.metrics_log import board_dir, log, log_hparams
    from nbdist.worker.result_files import params, result
    from nbdist.worker.session_rank import rejoin
    from nbdist.worker.summary_writer import SummaryWriter

__all__ = [
    "SummaryWriter",
    "__version__",
    "attach",
    "attempt",
    "board_dir",
    "checkpoint",
    "checkpoint_dir",
    "history",
    "latest_checkpoint",
    "load_ipython_extension",
    "log",
    "log_audio",
    "log_embedding",
    "log_histogram",
    "log_hparams",
    "log_image",
    "log_pr_curve",
    "log_roc_curve",
    "log_text",
    "params",
    "rejoin",
    "result",
    "resume",
    "run",
    "runs",
    "saving",
    "should_stop",
    "sweep",
]

# A rank imports this module for ``log`` alone: everything is imported when it is first used.
_HOMES = {
    "nbdist.magics.run_call": ("resume", "run"),
    "nbdist.runner": ("attach", "history", "runs", "sweep"),
    "nbdist.worker.checkpoints": ("attempt", "checkpoint", "checkpoint_dir", "latest_checkpoint", "saving"),
    "nbdist.worker.limit": ("should_stop",),
    "nbdist.worker.media": (
        *("log_audio", "log_embedding", "log_histogram", "log_image", "log_pr_curve", "log_roc_curve"),
        "log_text",
    ),
    "nbdist.worker.metrics_log": ("board_dir", "log", "log_hparams"),
    "nbdist.worker.result_files": ("params", "result"),
    "nbdist.worker.session_rank": ("rejoin",),
    "nbdist.worker.summary_writer": ("SummaryWriter",),
    "nbdist.version": ("__version__",),
}


def __getattr__(name: str) -> object:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'nbdist' has no attribute {name!r}")
    with import_lock:
        from importlib import import_module

        value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Load the extension, for ``%load_ext nbdist``."""
    import sys

    if sys.platform == "win32":
        print("nbdist needs Linux or macOS: on Windows, run Jupyter inside WSL")
        return
    if sys.platform == "emscripten":  # JupyterLite: a kernel in the browser
        print("nbdist cannot run here: a kernel in the browser starts no processes; use a Jupyter server")
        return
    from nbdist.magics import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Unload the extension, for ``%unload_ext nbdist``."""
    from nbdist.magics import unload

    unload(shell)


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    """Return the server extension, for a Jupyter server."""
    from nbdist.server.app import NbdistApp

    return [{"module": "nbdist.server.app", "app": NbdistApp}]
