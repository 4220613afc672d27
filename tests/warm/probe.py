"""Print as JSON all that a program sees of itself: a cold and a warm rank must print the same."""

import faulthandler
import gc
import inspect
import json
import locale
import multiprocessing
import os
import pickle
import random
import resource
import signal
import sys
import threading
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

# what imports torch once more, or as much again, is tried in the first rank alone
FIRST = os.environ["RANK"] == "0"
CONTEXTS = ("fork", "spawn", "forkserver")
OF_A_RUN = ("NBDIST_R", "NBDIST_CHECKPOINTS", "PADDLE", "TORCHELASTIC_RUN_ID", "JAX_COORDINATOR")


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index * index


def double(value):
    return 2 * value


def loaded(context):
    return [
        int(x)
        for batch in DataLoader(Squares(), 4, num_workers=1, multiprocessing_context=context)
        for x in batch
    ]


def lines():
    try:
        raise ValueError("seen")
    except ValueError:
        return [line for line in traceback.format_exc().splitlines() if "runs" not in line]


def main():
    here = sys.modules["__main__"]
    seen = {
        "name": [
            __name__,
            os.path.basename(__file__),
            os.path.basename(here.__file__),
            here.__dict__ is globals(),
        ],
        "dunders": [
            repr(__spec__),
            repr(__package__),
            repr(__doc__),
            repr(__cached__),
            type(__loader__).__name__,
        ],
        "argv": sys.argv[1:],
        "command": [word for word in sys.orig_argv if word != os.environ["NBDIST_RUN_ID"]],
        "collector": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
        "interpreter": [sys.getrecursionlimit(), sys.getswitchinterval(), faulthandler.is_enabled()],
        "machine": [sorted(os.sched_getaffinity(0)), os.nice(0), locale.setlocale(locale.LC_ALL, None)],
        "timers": [signal.getitimer(which) for which in (signal.ITIMER_REAL, signal.ITIMER_PROF)],
        "modules": [sys.modules["__main__"] is here, "nbdist" in sys.modules],
        "flags": repr(sys.flags),
        "path": sys.path,
        "source": [inspect.getsource(double), inspect.getsource(Squares)],
        "pickled": [pickle.loads(pickle.dumps(double))(4), Squares.__module__],
        "lines": lines(),
        "cwd": os.getcwd(),
        "environment": {
            key: value
            for key, value in sorted(os.environ.items())
            if "PORT" not in key and not key.startswith(OF_A_RUN)
        },
        "signals": {
            n.name: str(signal.getsignal(n)) for n in sorted(signal.valid_signals()) if hasattr(n, "name")
        },
        "blocked": sorted(map(str, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
        "limits": [
            resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")
        ],
        "umask": [line for line in Path("/proc/self/status").read_text().splitlines() if "Umask" in line],
        "session": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
        "files": sorted(
            os.path.basename(link).split("[")[0]
            for fd in os.listdir("/proc/self/fd")
            # the thread beside it may be reading one of /proc
            if os.path.exists(own := f"/proc/self/fd/{fd}") and "/proc/" not in (link := os.readlink(own))
        ),
        "streams": [
            [s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty(), type(s.buffer).__name__]
            for s in (sys.stdin, sys.stdout, sys.stderr)
        ],
        "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
        "threads": [threading.active_count(), torch.get_num_threads(), len(os.listdir("/proc/self/task"))],
        "method": multiprocessing.get_start_method(allow_none=True),
        "loaders": {context: loaded(context) for context in (CONTEXTS if FIRST else CONTEXTS[:1])},
        "compiled": FIRST and torch.compile(double, backend="eager")(torch.ones(1)).item(),
        "group": dist.is_initialized(),
        "run": os.environ["NBDIST_RUN_DIR"].encode() in Path("/proc/self/environ").read_bytes(),
    }
    print("SEEN", json.dumps(seen))
    print("RANDOM", random.random(), torch.rand(1).item(), torch.initial_seed())


if __name__ == "__main__":
    main()
