"""The stacks, collectives and waits of a rank, for its supervisor, whatever the program does.

A thread of its own answers the messages on the rank's socket: it appends the stacks of all threads to a file,
and writes the collectives of torch's Flight Recorder. Where native code holds the GIL, the C handler of
``faulthandler`` writes the stacks, on ``SIGNAL``. A handler interrupts sleeps and polls of native code, so
``launch.stalls`` sends the signal to that thread, unless the program computes. Several times a second the
thread notes whether the program waits for other ranks, for ``stragglers`` of the diagnosis.
"""

from __future__ import annotations

import _thread
import faulthandler
import os
import select
import struct
import sys
import time
from contextlib import suppress

from nbdist.importing import import_lock
from nbdist.worker import loader_workers, main_thread
from nbdist.worker.files import put
from nbdist.worker.main_thread import signal
from nbdist.worker.order import (
    CELL,
    CHANNEL,
    COLLECTIVES,
    END,
    FREE,
    INTERRUPT,
    LEAVE,
    NUMBERS,
    PAUSE,
    PAUSED,
    SIGNALLED,
    TASK,
    TERMINATE,
    Channel,
    Leave,
    Task,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, FrameType
    from typing import Any

    from nbdist.worker.freeing import Freeing
    from nbdist.worker.way_out import WayOut


def recorded(recorder: str, **options: bool) -> dict[str, Any]:
    """Return the content of torch's Flight Recorder for NCCL ("nccl") or all else ("fr"). Raises as that."""
    dump = getattr(sys.modules.get("torch._C._distributed_c10d"), f"_dump_{recorder}_trace_json", None)
    return {} if dump is None else json_module().loads(dump(**options))


def collectives(*, names: bool = True) -> dict[str, Any]:
    """Return each process group's unfinished collective with its number, else the number of the last one. It
    takes 10 µs without ``names`` and 0.1 ms with them, 80 ms after 2000 of gloo's, which never complete."""
    for recorder in ("nccl", "fr"):
        of_nccl = recorder == "nccl"
        try:
            groups = _groups(recorded(recorder, includeCollectives=False))
            # NCCL's list has unfinished ones alone, and its numbers are a tenth of a second late
            if groups and (names or of_nccl):
                active = recorded(recorder, onlyActive=True).get("entries", ())
                _add_entries(groups, active)
                groups = _by_name(groups, active) if names else groups
        except Exception:  # noqa: BLE001 - torch's recorder, which may raise anything
            continue
        if groups:
            return {name: group | ({"on_device": True} if of_nccl else {}) for name, group in groups.items()}
    return {}


def under_way() -> bool:
    """Return whether a collective runs beside the program: an unfinished one of gloo, or one of NCCL that has
    begun on the device, which torch records where TORCH_NCCL_ENABLE_TIMING is 1."""
    try:
        entries = recorded("nccl", onlyActive=True).get("entries", ())
        groups = _groups(recorded("fr", includeCollectives=False)).values()
    except Exception:  # noqa: BLE001 - torch's recorder, which may raise anything
        return False
    started = any(entry.get("state") == "started" for entry in entries)
    return started or any(not group["over"] for group in groups)


def _groups(trace: dict[str, Any]) -> dict[str, Any]:
    groups: dict[str, Any] = {}
    for group, status in trace.get("pg_status", {}).items():
        last = max(0, int(status["last_enqueued_collective"]))
        done = max(0, int(status.get("last_completed_collective", last)))
        number = min(last, done + 1)
        groups[str(group)] = {"name": "", "number": number, "over": done >= last, "begun": 0.0, "last": last}
    return groups


def _by_name(groups: dict[str, Any], entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the groups, with their members, by the name on all ranks instead of this process's number."""
    world: Any = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
    known = {"0": "0"} | {str(entry["pg_id"]): str(entry["process_group"][0]) for entry in entries}
    names = world.pg_names.items() if world is not None else ()
    members = {str(name): sorted(world.pg_group_ranks.get(group, ())) for group, name in names}
    by_name = {known.get(number, f"{number} of this process"): group for number, group in groups.items()}
    return {name: group | {"members": members.get(name, [])} for name, group in by_name.items()}


def _add_entries(groups: dict[str, Any], entries: Sequence[dict[str, Any]]) -> None:
    # of several unfinished ones the rank waits for the first
    for entry in reversed(entries):
        if not entry.get("retired") and entry.get("state") != "completed":
            group, name = str(entry["pg_id"]), str(entry["profiling_name"]).rpartition(":")[2]
            groups[group] = {
                "name": main_thread.NAMES.get(name, name),
                "number": int(entry["p2p_seq_id" if entry["is_p2p"] else "collective_seq_id"]),
                "over": False,
                "begun": int(entry["time_created_ns"]) / 1e9,
                "last": groups.get(group, {}).get("last", 0),
            }


def tell_history(directory: str) -> None:
    """Write this rank's calls in torch's process groups, if any, unless it was interrupted or freed: calls in
    a ``finally`` after that are not typical of the program."""
    if main_thread.obeyed or "torch._C._distributed_c10d" not in sys.modules:
        return
    try:
        with import_lock:
            from nbdist.worker import history  # most runs neither stand still nor fail
        history.write(directory)
    except Exception:  # noqa: BLE001 - torch's recorder is only asked
        return


def tell_history_at_the_end(directory: str) -> None:
    """Do the same after the program's end with NCCL, whose other ranks may still wait for this one. With gloo
    they fail, and reading the calls takes a tenth of a second."""
    torch, c10d = map(sys.modules.get, ("torch", "torch._C._distributed_c10d"))
    try:
        if hasattr(c10d, "_dump_nccl_trace") and torch is not None and torch.cuda.is_initialized():
            tell_history(directory)
    except AttributeError:  # the program has not imported all of torch
        return


def call_used(module: str, name: str) -> None:
    """Call a function of a module of this package, if the program has needed that: ``step_hooks`` once it has
    imported torch or paddle, ``debugger`` once it was held."""
    if (call := getattr(sys.modules.get(f"nbdist.worker.{module}"), name, None)) is not None:
        call()


_SHOWN = 160


def _described(error: BaseException | None) -> dict[str, Any]:
    """Return an exception's text, and the files and lines of its traceback; empty for None."""
    if error is None:
        return {}
    try:
        text = f"{type(error).__qualname__}: {error}".rstrip(": ").partition("\n")[0][:_SHOWN]
    except Exception:  # noqa: BLE001 - the program's own __str__
        text = type(error).__qualname__
    steps = main_thread.steps_of(error.__traceback__)
    return {"text": text, "places": [[step.tb_frame.f_code.co_filename, step.tb_lineno] for step in steps]}


def json_module() -> Any:
    """Return the json module, imported when needed."""
    with import_lock:
        import json

    return json


# not SIGUSR1 or SIGUSR2, which Slurm and programs use; on macOS one that is ignored by default
SIGNAL = int(signal.SIGRTMIN) + 7 if hasattr(signal, "SIGRTMIN") else 29

# all but ours and those that a thread's own code raises
_OF_A_THREAD = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV}
_OF_THE_PROGRAM = signal.valid_signals() - {SIGNAL, *_OF_A_THREAD}

WAITS = struct.Struct("=QQQ")
"""The file of waits: the samples of the main thread; those in which it waited for ranks; and those in which
it waited or a collective is known to have run beside it."""

_PERIOD, _SPREAD = 90, 71
"""Milliseconds between two looks at the main thread, and up to so many more, in a long cycle: a constant
period would always meet a program's steps at the same place."""

_SLEEPS = 0.05  # seconds after which a main thread that sleeps gets a signal
_IDLE = 1000  # the same for a program that waits for no other rank
_CHECKS = 8  # one look in so many also checks the handler, about once a second
_LONGEST_STATUS = 16_384
_DISTRIBUTED = ("torch.distributed", "paddle.distributed")
_FORKED = "multiprocessing.popen_fork"
_DEPTH = 60
_BACKWARD = "_engine_run_backward"
"""The function that exchanges gradients as it computes them: it waits when it sleeps."""

_file: int | None = None  # kept open for the handler, which has its number alone

on_cell: Callable[[bytes], object] | None = None
"""The receiver of CELL and END (``session_rank``)."""


def listen(directory: str) -> None:
    """Start to answer the supervisor's messages; without room for the file run without that."""
    global _file
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        _file = os.open(os.path.join(directory, "stacks"), flags, 0o600)
        faulthandler.register(SIGNAL, file=_file, all_threads=True, chain=False)
        loader_workers.prepare(directory, SIGNAL)
    except (OSError, ValueError, RuntimeError):
        return
    _introduce(_file, 0)
    if sys.version_info >= (3, 12):
        # Python warns of a fork beside another thread; this thread is no danger to it
        import warnings

        words = r"This process .* is multi-threaded, use of (fork|forkpty)\(\)"
        warnings.filterwarnings("ignore", words, DeprecationWarning)
    if main_thread.BEAT:
        signal.signal(main_thread.BEAT, main_thread.beat)
    main_thread.process = os.getpid()
    listener = _Listener(directory, _file)
    # this thread, which inherits the mask, is not to receive the signals that the program blocks in its own
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_THE_PROGRAM)
    try:
        _thread.start_new_thread(listener.run, ())
    except RuntimeError:
        return  # no room for another thread: the main thread receives the signal
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _keep_handler(file: int) -> None:
    """Install the handler again where it was removed, unless the program has its own: lightning restores
    after each fit() the handlers that Python knows, and not this one of native code."""
    try:
        lines = _read("/proc/self/status").splitlines()
        masks = [int(line.split()[1], 16) for line in lines if line.startswith((b"SigIgn:", b"SigCgt:"))]
        if len(masks) == 2 and not (masks[0] | masks[1]) & 1 << (SIGNAL - 1):
            # faulthandler still counts it as registered
            faulthandler.unregister(SIGNAL)
            faulthandler.register(SIGNAL, file=file, all_threads=True, chain=False)
    except (OSError, ValueError, RuntimeError):
        return


def _introduce(file: int, thread: int) -> None:
    """Write that the handler is in place, and the thread for the signal (0: any). The last line counts."""
    try:
        os.write(file, b'{"thread": %d, "fd": %d}\n' % (thread, file))
    except OSError:
        return


def _read(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, _LONGEST_STATUS)
    finally:
        os.close(handle)


class _Listener:
    """The thread that answers the supervisor, and its samples of the main thread."""

    def __init__(self, directory: str, file: int) -> None:
        self._file = file
        self._answer = os.path.join(directory, "collectives")
        self._waits = os.path.join(directory, "waits")
        self._calls = os.path.join(directory, "calls")
        self._main = _thread.get_ident()
        self._main_stat = f"/proc/self/task/{_thread.get_native_id()}/stat"
        # the program may close it, and open another file under its number
        self._socket = os.fstat(CHANNEL).st_ino
        self._looks = self._waited = self._under_way = self._rounds = 0
        self._on_device = False
        self._codes: dict[CodeType, bool] = {}
        self._freeing: Freeing | None = None
        self._way_out: WayOut | None = None

    def run(self) -> None:
        _introduce(self._file, _thread.get_native_id())
        poll, period, rests = select.poll(), 0, False
        poll.register(CHANNEL, select.POLLIN)
        while self._has_socket():
            # visits all the numbers below 71
            period = (period * 7 + 11) % _SPREAD
            alone = not any(name in sys.modules for name in _DISTRIBUTED)
            owes = self._freeing is not None and self._freeing.owes and not main_thread.over
            idle = alone or rests or main_thread.over
            ends = owes or (self._way_out is not None and not main_thread.over)
            if poll.poll(_PERIOD if ends else _IDLE if idle else _PERIOD + period):
                rests = True
                try:
                    word = os.read(CHANNEL, 1) if self._has_socket() else b""
                except OSError:
                    return
                if word in (COLLECTIVES, NUMBERS):
                    faulthandler.dump_traceback(self._file)
                    self._tell_collectives(names=word == COLLECTIVES)
                elif word in (PAUSE, LEAVE):
                    self._reach_limit(word)
                elif word == TASK:
                    task = Task.receive()
                    (self._record if task.seconds else self._ask_main_thread)(task)
                elif word in (CELL, END) and on_cell is not None:
                    # an interrupt of the cell before is over
                    self._freeing = self._way_out = main_thread.on_beat = None
                    main_thread.obeyed = main_thread.handler_ran = False
                    on_cell(word)
                elif word not in (INTERRUPT, FREE, TERMINATE, SIGNALLED) or not self._obey(word):
                    return
            elif self._freeing is not None and self._way_out is not None and ends:
                if owes or self._way_out.awaits_handler:
                    self._freeing.remind()
                self._way_out.look(self._freeing.before)
            else:
                self._rounds += 1
                if idle or self._rounds % _CHECKS == 0:
                    _keep_handler(self._file)
                    call_used("step_hooks", "write")
                if not alone:
                    rests = False
                    self._look()

    def _reach_limit(self, word: bytes) -> None:
        with import_lock:
            from nbdist.worker import limit  # a program may never ask
        if word == LEAVE:
            limit.name(Leave.receive().call)
            return
        with suppress(OSError):
            put(self._calls, b"%d" % limit.pause())
        Channel().say(PAUSED)

    def _record(self, task: Task) -> None:
        with import_lock:
            from nbdist.worker.profiler import record  # most runs need none
        directory = os.path.dirname(self._answer)
        with suppress(RuntimeError):  # no room for another thread
            _thread.start_new_thread(record, (directory, task.name, task.seconds))

    def _ask_main_thread(self, task: Task) -> None:
        """Let the main thread evaluate an expression, or stop for a debugger, once it executes Python."""
        with import_lock:
            from nbdist.worker import debugger  # most runs need none
        main_thread.requests.append(lambda frame: debugger.perform(task, frame))
        _thread.interrupt_main(main_thread.BEAT)  # type: ignore[arg-type]  # it has no name of its own
        time.sleep(_SLEEPS)
        # not in native code that waits for others, which the signal might break
        if main_thread.requests and main_thread.takes_beats() and self._asleep() and not self._waits_now():
            signal.pthread_kill(self._main, main_thread.BEAT)

    def _obey(self, word: bytes) -> bool:
        """Interrupt the program, end it by its own handler, or free it from its wait; return whether that was
        possible."""
        if on_cell is None:
            # its calls from now on are not typical of the program
            tell_history(os.path.dirname(self._answer))
        main_thread.obeyed = True
        try:
            if self._freeing is None:
                with import_lock:
                    from nbdist.worker.freeing import Freeing  # most runs need none
                    from nbdist.worker.way_out import WayOut

                self._freeing = Freeing(self._main, self._asleep)
                directory = os.path.dirname(self._answer)
                self._way_out = WayOut(self._main, directory, self._waits_now)
            assert self._way_out is not None, "both are made together"
            self._way_out.begin()
            # before it says that it does not wait, which ends a rank that does not save
            if word == FREE:
                self._way_out.look(self._freeing.before)
            if word == SIGNALLED:
                self._way_out.signalled()
            elif word == FREE:
                self._freeing.free()
            elif word == INTERRUPT or not self._freeing.terminate(self._way_out.terminate):
                self._freeing.interrupt()
            self._way_out.look(self._freeing.before)
        except Exception:  # noqa: BLE001 - the program has broken it: the supervisor sends signals
            return False
        return True

    def _has_socket(self) -> bool:
        try:
            return os.fstat(CHANNEL).st_ino == self._socket
        except OSError:
            return False

    def _tell_collectives(self, *, names: bool) -> None:
        """Write the numbers first, since the names may take long. By ``beats`` the next look sees whether the
        main thread has been in one call since this one."""
        # an exception since an interrupt is that interrupt's
        error = main_thread.handled(self._main) if self._freeing is None else self._freeing.before
        numbers = {
            "groups": collectives(names=False),
            "beats": main_thread.beats,
            "handling": _described(error),
            "values": self._values() if names else [],
            "workers": loader_workers.stacks() if names and _FORKED in sys.modules else [],
        }
        self._put(f"{self._answer}.numbers", numbers)
        if names:
            tell_history(os.path.dirname(self._answer))
            self._put(self._answer, collectives())
        elif main_thread.takes_beats():
            _thread.interrupt_main(main_thread.BEAT)  # type: ignore[arg-type]  # it has no name of its own

    def _values(self) -> list[tuple[str, int, str, str]]:
        """Return the names in the ifs and loops around the main thread's lines."""
        try:
            with import_lock:
                from nbdist.worker.operands import conditions  # most runs never stand still
            return conditions(sys._current_frames().get(self._main))
        except Exception:  # noqa: BLE001 - it reads objects of the program
            return []

    def _put(self, path: str, answer: dict[str, Any]) -> None:
        try:
            put(path, json_module().dumps(answer).encode())
        except OSError:
            return

    def _look(self) -> None:
        """Note whether the main thread waits for others, and write the file about once a second."""
        frame = sys._current_frames().get(self._main)
        if frame is None:
            return
        self._looks += 1
        waits = self._waits_for_others(frame)
        del frame
        self._waited += waits
        self._under_way += waits or under_way()
        if self._looks % 8:
            return
        # a rank with NCCL goes on while its device waits, so that its samples mean nothing
        groups = () if self._on_device else collectives(names=False).values()
        self._on_device |= any(group.get("on_device") for group in groups)
        if not self._on_device:
            try:
                handle = os.open(self._waits, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                os.pwrite(handle, WAITS.pack(self._looks, self._waited, self._under_way), 0)
                os.close(handle)
            except OSError:
                return

    def _waits_now(self) -> bool:
        return self._waits_for_others(sys._current_frames().get(self._main))

    def _waits_for_others(self, frame: FrameType | None) -> bool:
        for _ in range(_DEPTH):
            if frame is None:
                return False
            code = frame.f_code
            if code not in self._codes:
                # a rank that sleeps in such code waits for others
                self._codes[code] = code.co_name == _BACKWARD or main_thread.is_distributed(code)
            if self._codes[code]:
                return self._asleep()
            frame = frame.f_back
        return False

    def _asleep(self) -> bool:
        try:
            return _read(self._main_stat).rpartition(b")")[2].split()[0] != b"R"
        except (OSError, IndexError):
            return False
