"""Words that no nbdist says, on every socket and in every file that it reads: each reader takes them for what
they are, and goes on. A reader that is missing in this table fails the last test."""

from __future__ import annotations

import ast
import contextlib
import http.server
import json
import os
import random
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tornado import web

from nbdist import options, processes, runner
from nbdist.board.server import find_jupyter, read_board
from nbdist.devices.usage import decode_loads
from nbdist.diagnosis.training import training_of
from nbdist.doctor import cluster, installed
from nbdist.engines import ray
from nbdist.engines.ray_driver import CannotStart, take_environment
from nbdist.errors import LaunchError, UnknownRun, UsageMistake
from nbdist.feed.profile import _merged, read_profile
from nbdist.feed.sweep_state import SweepReader
from nbdist.launch.attempt import Attempt
from nbdist.launch.machines.link import BadMessage, Link, LinkClosed, WrongKey, check, parsed
from nbdist.launch.rank_process import RankProcess
from nbdist.launch.run_policy import RunPolicy
from nbdist.launch.stalls.stack_taker import RankContact, find
from nbdist.model import ProcessId, Reason, Rendezvous, decode_event, encode_event
from nbdist.model.sweep import Sweep
from nbdist.options.recorded import first_line, program_words
from nbdist.runner.pruning import _Sizes
from nbdist.server.handlers import Api
from nbdist.server.socket import read_request
from nbdist.sockets import connect_to, listen_at
from nbdist.store import RunDirectory, RunStore, read_events
from nbdist.store.control import ask_sweep_to_end, request_stop, take_requests
from nbdist.store.held_ranks import read_held
from nbdist.store.journal import load_object, read_object
from nbdist.store.marks import read_marks
from nbdist.store.metrics import points_of, read_hparams
from nbdist.store.paths import SweepDirectory, make_private
from nbdist.store.reports import read_error, read_history, read_stacks
from nbdist.store.results import Result, read_index, read_outputs, read_value
from nbdist.store.run_store import SweepStore, read_spec, read_sweep, replayed
from nbdist.store.step_records import PARTS as STEP_PARTS
from nbdist.store.step_records import read_steps
from nbdist.values import tensors
from nbdist.values.box import BadBox, Contents
from nbdist.warm.idle_policy import IdlePolicy
from nbdist.warm.line import Line
from nbdist.warm.pool import Standby
from nbdist.warm.standby import StandbySupervisor, WaitingRank
from nbdist.worker.order import WELL
from nbdist.worker.result_files import _write_index
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, RUN_ID, STARTED, a_spec
from tests.faults.test_damaged_files import MARK, RAW, WRONG, places, replaced
from tests.launch.test_session import Played

Take = Callable[[bytes], object]

GONE = ProcessId(pid=2**22 + 1, start_time=5, boot_id="b")
"""A process that is not there."""

PARTS = 20
"""The parts of a sample that get each hostile word."""

DEEP = [b"[" * 900 + b"]" * 900, b'{"a":' * 900 + b"0" + b"}" * 900]
"""As deep as JSON may be nested; a little further down the stack it is too deep."""


@dataclass(frozen=True)
class Reader:
    """A reader of words. ``sample`` is one that it accepts; ``refuses`` are the errors that it may raise."""

    names: tuple[str, ...]
    sample: Any
    open: Callable[[Path], AbstractContextManager[Take]]
    refuses: tuple[type[Exception], ...]


READERS: list[Reader] = []


def reads(*names: str, sample: Any, refuses: tuple[type[Exception], ...] = ()) -> Callable[[Any], Any]:
    def register(opens: Callable[[Path], Iterator[Take]]) -> Any:
        READERS.append(Reader(names, sample, contextlib.contextmanager(opens), refuses))
        return opens

    return register


def in_file(path: Path, read: Callable[[], object]) -> Take:
    """Return a reader of a file that holds the word."""

    def take(word: bytes) -> object:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(word)
        return read()

    return take


def words(sample: Any) -> Iterator[bytes]:
    """Yield the sample with each hostile word in place of each of its parts, and words that are no JSON at
    all."""
    dice = random.Random("nbdist")
    yield json.dumps(sample).encode()
    parts = list(places(sample))
    for path in dice.sample(parts, min(PARTS, len(parts))):
        marked = json.dumps(replaced(sample, path, MARK)).encode()
        for word in (*RAW[:-2], *DEEP):
            yield marked.replace(json.dumps(MARK).encode(), word)
        for value in WRONG:
            yield json.dumps(replaced(sample, path, value)).encode()
    yield from RAW
    for length in (0, 1, 3, 30, 300):
        yield from (dice.randbytes(length) for _ in range(10))


SPEC = a_spec(args=("--lr", "{lr}"), timeout=90.0, owner=GONE)
SWEEP = Sweep(
    sweep_id="20261123-120000-lenet-bbbb",
    name="lenet",
    created=CREATED,
    spec=SPEC,
    runs=("20261123-120000-lenet-1-cccc",),
    points=({"lr": "0.1"},),
    slots=(SPEC.ranks,),
)
ANSWER = {"cell": 1, "behind": 0, "ranks": [0, 1], "gone": []}
FACTS = {"begun": 1, "reads": ["A"], "files": {"a": [1, 2]}, "path": ["/"], "problem": "", "threads": 1}


def events() -> list[Any]:
    return [json.loads(encode_event(event)) for event in STARTED]


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


# sockets


@reads(
    "launch/session:Session._read",
    sample={"do": "cell", "text": "x", "ranks": [0, 1], "inputs": "", "pull": ["a"]},
)
def _(folder: Path) -> Iterator[Take]:
    played = Played(folder / "home")
    asker = played.asker()

    def take(word: bytes) -> None:
        asker.socket.setblocking(True)
        asker.socket.sendall(word[:60_000].replace(b"\n", b" ") + b"\n")
        played.look()
        played.says(0, WELL)
        played.says(1, WELL)
        asker.heard()

    yield take
    assert "cell" in asker.cell()
    played.close()


@reads("launch/rank_process:RankProcess.hear", sample=[])
def _(folder: Path) -> Iterator[Take]:
    """A rank of a session whose program writes into the socket of its supervisor."""
    spec = a_spec(ranks=1, session=30.0)
    directory = RunStore(folder / "home").create(spec, "")
    selector, pairs = selectors.DefaultSelector(), [socket.socketpair()]
    policy = RunPolicy(spec, record=lambda _: None, send=lambda *_: None, wall_clock=lambda: CREATED)
    pairs[0][0].setblocking(False)
    attempt = Attempt(
        directory, spec, 1, policy=policy, selector=selector, spawn=lambda _: RankProcess(GONE, pairs[0][0])
    )
    attempt.start(Rendezvous(host="127.0.0.1", port=20_001))

    def take(word: bytes) -> None:
        for at in range(0, len(word[:2_000]), 50):
            pairs[0][1].sendall(word[at : at + 50])
            while ready := selector.select(0):
                for key, _ in ready:
                    key.data()

    take(bytes(range(256)) * 2)
    yield take
    attempt.forget()
    selector.close()
    pairs[0][1].close()


@reads(
    "runner/sessions:LiveCell.listen",
    "runner/sessions:LiveCell._hear",
    sample=ANSWER | {"refused": ""},
    refuses=(UsageMistake,),
)
def _(folder: Path) -> Iterator[Take]:
    run = WrittenRun(folder / "home", a_spec(session=30.0)).happened(*STARTED)
    listener, handle = listen_at(run.directory.socket), runner.RunHandle(run.directory)
    listener.setblocking(True)
    word = b""

    def answer() -> None:
        while True:
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError):
                if not client.recv(1 << 16):
                    return
                # one that is no answer is passed over
                client.sendall(b"\n".join([word, json.dumps(ANSWER).encode(), word, b""]))

    def take(hostile: bytes) -> None:
        nonlocal word
        word = hostile.replace(b"\n", b" ")
        with runner.LiveCell(handle, "x") as cell:
            while not cell.lost:
                cell.listen(5.0)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield take
    finally:
        with connect_to(run.directory.socket):
            """It says nothing: there is no other."""
        thread.join()
        listener.close()


HELD = {"why": "error", "file": "cell.py", "line": 2, "what": "x", "values": ["x = 1"]}


@reads("store/held_ranks:read_held", sample=HELD)
def _(folder: Path) -> Iterator[Take]:
    files = RunDirectory(folder).rank(0)
    yield in_file(files.held, lambda: encode_event(read_held(files, 0)))


@reads(
    "launch/machines/link:parsed", sample={"kind": "still", "attempt": 1}, refuses=(LinkClosed, BadMessage)
)
def _(folder: Path) -> Iterator[Take]:
    yield lambda word: check(parsed(word))


@reads("launch/machines/link:Link.receive", sample=[], refuses=(LinkClosed, WrongKey))
def _(folder: Path) -> Iterator[Take]:
    def take(word: bytes) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            link = Link(ours, "key", caller=False)
            theirs.sendall(word[:60_000] + b"\n")
            try:
                link.receive()
            finally:
                link.close()

    yield take


@reads("warm/line:Line.receive", sample={"ready": {"reads": ["A"], "pids": [1]}})
def _(folder: Path) -> Iterator[Take]:
    def take(word: bytes) -> None:
        standby = Standby.__new__(Standby)
        ours, theirs = socket.socketpair()
        standby.gone, standby._line = "", Line(ours)
        with ours, theirs:
            theirs.sendall(word[:60_000] + b"\n")
            standby.look(1.0)

    yield take


@reads("warm/standby:WaitingRank.hear", sample=FACTS)
def _(folder: Path) -> Iterator[Take]:
    def take(word: bytes) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(word[:60_000] + b"\n")
            WaitingRank(GONE, ours).hear()

    yield take


@reads("warm/standby:StandbySupervisor._hear_kernel", sample={"hurry": True})
def _(folder: Path) -> Iterator[Take]:
    preload = {"modules": [], "first": "", "python_path": [], "unseen": []}
    offer = {"spec": SPEC.to_dict(), "preload": preload, "beside": False, "hurry": False}
    ours, theirs = socket.socketpair()
    standby = StandbySupervisor(
        offer, Line(ours), ours, idle_policy=IdlePolicy(least=0, limit=900.0, spare=lambda: 0.0)
    )

    def take(word: bytes) -> None:
        theirs.sendall(word[:60_000].replace(b"\n", b" ") + b"\n")
        standby._hear_kernel()

    yield take
    ours.close()
    theirs.close()


@reads("devices/usage:decode_loads", sample=[{"index": 1, "processes": [[2, 3]]}], refuses=(ValueError,))
def _(folder: Path) -> Iterator[Take]:
    yield decode_loads


@reads("server/handlers:Api.body", sample={"reason": "enough"}, refuses=(web.HTTPError,))
def _(folder: Path) -> Iterator[Take]:
    def take(word: bytes) -> None:
        request: Any = SimpleNamespace(request=SimpleNamespace(body=word))
        request.body = lambda *known: Api.body(request, *known)
        Api.stop_reason(request)

    yield take


@reads(
    "server/socket:read_request",
    sample={"kind": "watch", "run_id": RUN_ID, "from": {"0": 7}},
    refuses=(ValueError,),
)
def _(folder: Path) -> Iterator[Take]:
    yield read_request


@reads("engines/ray:RayApi._call", sample={"ray_version": "2.9"}, refuses=(LaunchError,))
def _(folder: Path) -> Iterator[Take]:
    body = [b""]

    class Head(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body[0])

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Head) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()

        def take(word: bytes) -> None:
            body[0] = word
            ray.RayApi(f"http://127.0.0.1:{server.server_port}", "").version()

        try:
            yield take
        finally:
            server.shutdown()
            thread.join()


# what other programs print or pass on


@reads("engines/ray:_reason", sample=Reason("ray-stopped", job="7", why=Reason("ray-looks")).encode())
def _(folder: Path) -> Iterator[Take]:
    yield lambda word: ray._reason(word.decode(errors="replace"))


@reads("doctor/cluster:answer_in", sample={"node": "a", "entries": []})
def _(folder: Path) -> Iterator[Take]:
    yield lambda word: cluster.answer_in(cluster._MARK + word.decode(errors="replace"))


@reads("engines/ray_driver:take_environment", sample={"A": "b"}, refuses=(CannotStart,))
def _(folder: Path) -> Iterator[Take]:
    directory = RunDirectory(folder)
    yield in_file(directory.job_environment, lambda: take_environment(directory))


# files


@reads("model/decoding:loads", "store/journal:load_object", sample=[], refuses=(ValueError,))
def _(folder: Path) -> Iterator[Take]:
    yield in_file(folder / "a.json", lambda: load_object(folder / "a.json"))


@reads("store/journal:read_object", sample={})
def _(folder: Path) -> Iterator[Take]:
    yield in_file(folder / "a.json", lambda: read_object(folder / "a.json"))


@reads("model/events:decode_event", sample=events()[2], refuses=(ValueError,))
def _(folder: Path) -> Iterator[Take]:
    yield decode_event


for _event in events():

    @reads("store/journal:read_events", sample=_event)
    def _(folder: Path) -> Iterator[Take]:
        yield in_file(folder / "journal", lambda: replayed(a_spec(), read_events(folder / "journal")))


@reads("store/run_store:_read", sample=as_json(SPEC.to_dict()), refuses=(UnknownRun,))
def _(folder: Path) -> Iterator[Take]:
    directory = RunStore(folder / "home").create(SPEC, "")

    def read() -> None:
        spec = read_spec(directory)
        first_line(spec)
        program_words(spec)

    yield in_file(directory.spec, read)


def a_sweep(folder: Path) -> SweepDirectory:
    return SweepStore(folder / "home").begin(SWEEP, "", None)


@reads("store/run_store:_read", sample=as_json(SWEEP.to_dict()), refuses=(UnknownRun,))
def _(folder: Path) -> Iterator[Take]:
    directory = a_sweep(folder)
    yield in_file(directory.spec, lambda: read_sweep(directory))


@reads("feed/sweep_state:SweepReader._reason", sample={"reason": Reason("kernel-ended").encode()})
def _(folder: Path) -> Iterator[Take]:
    directory = a_sweep(folder)
    yield in_file(directory.ended, SweepReader(directory).look)


@reads("store/control:ask_sweep_to_end", sample=asdict(GONE))
def _(folder: Path) -> Iterator[Take]:
    directory = a_sweep(folder)
    yield in_file(directory.process, lambda: ask_sweep_to_end(directory, Reason("kernel-ended")))


@reads("store/control:_decode", sample={"kind": "stop", "reason": {"code": "said", "text": "enough"}})
def _(folder: Path) -> Iterator[Take]:
    directory = RunStore(folder / "home").create(SPEC, "")
    request_stop(directory, Reason("kernel-ended"))
    yield in_file(directory.control / "stop-1-a.json", lambda: take_requests(directory))


@reads("runner/pruning:_Sizes.__enter__", sample={RUN_ID: 5})
def _(folder: Path) -> Iterator[Take]:
    store = RunStore(folder / "home")
    run = store.create(SPEC, "")

    def read() -> None:
        with _Sizes(store) as sizes:
            assert sizes.of(run)[0] / 1e9 < 1e12

    yield in_file(store.sizes, read)


@reads(
    "store/metrics:decoded",
    "store/metrics:_settings",
    sample={"t": CREATED, "step": 1, "total": 9, "v": {"loss": 0.5}, "hparams": {"lr": 1}},
)
def _(folder: Path) -> Iterator[Take]:
    run = WrittenRun(folder / "home").happened(*STARTED)
    path = run.directory.rank(0).metrics

    def read() -> None:
        points_of(path.read_bytes().splitlines())
        read_hparams(run.run, run.directory)

    yield in_file(path, read)


STEPS = {
    "steps": 9,
    "seconds": 2.0,
    "samples": 18,
    "fetches": 9,
    "backwards": 9,
    "parts": dict.fromkeys(STEP_PARTS, 0.3),
}


@reads(
    "store/step_records:read_steps",
    sample={
        "time": 1.0,
        "total": STEPS,
        "recent": STEPS,
        "facts": {
            "device": "cpu",
            "lr": 0.1,
            "schedule": "S",
            "parameters": 9,
            "loader_batches": 3,
            "workers": 0,
        },
    },
)
def _(folder: Path) -> Iterator[Take]:
    def read() -> None:
        record = read_steps(folder / "steps.json")
        training = training_of({} if record is None else {0: record, 1: record}, live=True)
        if training is not None:
            json.dumps([training.lines("en"), training.to_dict("zh")], allow_nan=False)

    yield in_file(folder / "steps.json", read)


FRAME = {"file": "a.py", "line": 1, "function": "f", "source": "x"}


@reads(
    "store/reports:read_error",
    sample={"type": "E", "message": "m", "frames": [FRAME], "text": "t", "time": 1.0, "refused": ["a", 1, 2]},
)
def _(folder: Path) -> Iterator[Take]:
    yield in_file(folder / "error.json", lambda: read_error(folder / "error.json"))


COLLECTIVE = {"name": "all_reduce", "number": 3, "over": False, "members": [0]}


@reads(
    "store/reports:read_stacks",
    sample={"time": 1.0, "attempt": 1, "ranks": [{"rank": 0, "collectives": {"0": COLLECTIVE}}]},
)
def _(folder: Path) -> Iterator[Take]:
    directory = RunStore(folder / "home").create(SPEC, "")
    yield in_file(directory.stacks, lambda: read_stacks(directory))


@reads(
    "store/reports:read_history",
    sample={"ways": [[["a.py", 1, "f"]]], "groups": {"0": [[1, "gloo:send", "float32", 0]]}},
)
def _(folder: Path) -> Iterator[Take]:
    yield in_file(folder / "history", lambda: read_history(folder / "history"))


def a_rank(folder: Path) -> tuple[RankContact, RunDirectory]:
    """Return a rank whose process is this one."""
    directory = RunStore(folder / "home").create(SPEC, "")
    make_private(directory.rank(0).path)
    process = processes.identify(os.getpid())
    assert process is not None
    return RankContact(0, process, directory.rank(0), lambda _: None), directory


@reads("launch/stalls/stack_taker:_introduction", sample={"thread": 1, "fd": 3})
def _(folder: Path) -> Iterator[Take]:
    rank, _ = a_rank(folder)

    def take(word: bytes) -> None:
        rank.files.stacks.write_bytes(word + b"\n")
        find(rank.process, rank.files)

    yield take


@reads(
    "launch/stalls/stack_taker:_answer",
    sample={
        "groups": {"0": COLLECTIVE},
        "beats": 1,
        "handling": {"text": "E", "places": [["a.py", 1]]},
        "values": [{"file": "a.py", "line": 1, "name": "x", "what": "5"}],
        "workers": ["w"],
    },
)
def _(folder: Path) -> Iterator[Take]:
    from nbdist.launch.stalls import stack_taker

    rank, _ = a_rank(folder)
    rank.files.stacks.write_text("text\n")
    pending = stack_taker._Pending(rank, b"", ending=False)
    yield in_file(stack_taker._numbers(rank.files), lambda: stack_taker._answer(pending))


@reads(
    "feed/profile:read_profile",
    sample={
        "time": 1.0,
        "seconds": 2.0,
        "trace": "/a",
        "ranks": [{"rank": 0, "parts": {"idle": 1.0}, "line": "3", "problem": "", "problem_zh": ""}],
    },
)
def _(folder: Path) -> Iterator[Take]:
    directory = RunDirectory(folder)
    yield in_file(directory.profile, lambda: read_profile(directory))


@reads(
    "feed/profile:_merged",
    sample={
        "baseTimeNanoseconds": 1,
        "traceEvents": [{"ph": "X", "name": "a", "cat": "cpu_op", "pid": 1, "ts": 1.0, "dur": 2.0}],
        "problem": "",
    },
)
def _(folder: Path) -> Iterator[Take]:
    yield in_file(folder / "trace", lambda: _merged({0: folder / "trace"}, folder / "merged"))


@reads("store/marks:read_marks", sample={"pinned": True, "tags": ["base"], "note": "the one to keep"})
def _(folder: Path) -> Iterator[Take]:
    directory = RunDirectory(folder)
    folder.chmod(0o700)
    yield in_file(directory.marks, lambda: read_marks(directory))


@reads(
    "store/results:read_index",
    "store/results:_read_json",
    sample={"name": "acc", "time": 1.0, "kind": "object", "format": "json", "file": "acc.json"},
)
def _(folder: Path) -> Iterator[Take]:
    files = RunStore(folder / "home").create(SPEC, "").rank(0)
    make_private(files.path)
    make_private(files.results)

    def take(word: bytes) -> None:
        (files.results / "acc.json").write_bytes(word)
        (files.results / "acc.index.json").write_bytes(word)
        for name in os.listdir(files.results):
            (files.results / name).chmod(0o600)
        read_index(files)
        with contextlib.suppress(ValueError):
            read_value(files, Result(name="acc", time=1.0, kind="object", format="json", file="acc.json"))

    yield take


@reads(
    "store/results:_output",
    sample={"t": 1.0, "at": 0, "file": f"{'a' * 32}.png", "mime": "image/png", "id": "", "text": "x"},
)
def _(folder: Path) -> Iterator[Take]:
    run = WrittenRun(folder / "home").happened(*STARTED)
    yield in_file(run.directory.rank(0).display, lambda: read_outputs(run.directory, run.run))


@reads("worker/result_files:_write_index", sample={"file": "a.json"})
def _(folder: Path) -> Iterator[Take]:
    yield in_file(folder / "acc.index.json", lambda: _write_index(str(folder), "acc", {"file": "new.json"}))


@reads(
    "values/box:Contents.decode",
    sample={"items": [], "pickles": 0, "buffers": [[0, 1]], "sources": {"a": "x"}, "packages": ["numpy"]},
    refuses=(BadBox,),
)
def _(folder: Path) -> Iterator[Take]:
    yield Contents.decode


# a kind of number that there is not: none is made
@reads("values/tensors:read", sample={"a": {"dtype": "F33", "shape": [1]}}, refuses=(ValueError,))
def _(folder: Path) -> Iterator[Take]:
    def take(word: bytes) -> None:
        path = folder / "a.safetensors"
        path.write_bytes(len(word).to_bytes(8, "little") + word)
        with path.open("rb") as file:
            tensors.read(file, "torch")

    yield take


@reads(
    "board/server:read_board",
    sample={"pid": 2**22 + 1, "start_time": 5, "boot_id": "b", "port": 1, "token": "t"},
)
def _(folder: Path) -> Iterator[Take]:
    folder.chmod(0o700)
    yield in_file(folder / "board/server.json", lambda: read_board(folder))


SERVER = {
    "url": "http://localhost:8888/",
    "hostname": "localhost",
    "port": 8888,
    "base_url": "/",
    "token": "t",
}


@reads("board/server:jupyter_servers", sample=SERVER | {"pid": 77})
def _(folder: Path) -> Iterator[Take]:
    environ = {"JUPYTER_RUNTIME_DIR": str(folder), "JPY_PARENT_PID": "77"}
    yield in_file(
        folder / "jpserver-77.json", lambda: (find_jupyter(environ), installed._own_servers(environ))
    )


@reads("doctor/installed:_labextension", sample={"version": "0.1.0"})
def _(folder: Path) -> Iterator[Take]:
    path = folder / "labextensions/nbdist/package.json"
    yield in_file(path, lambda: installed._labextension([str(folder)]))


@reads("doctor/installed:_server_extension", sample={"ServerApp": {"jpserver_extensions": {"nbdist": True}}})
def _(folder: Path) -> Iterator[Take]:
    path = folder / "jupyter_server_config.d/a.json"
    yield in_file(path, lambda: installed._server_extension([str(folder)]))


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.names[0])
def test_every_reader_takes_hostile_words(tmp_path: Path, reader: Reader) -> None:
    with reader.open(tmp_path) as take:
        for word in words(reader.sample):
            try:
                take(word)
            except reader.refuses:
                continue
            except Exception as error:
                raise AssertionError(f"{word[:200]!r}") from error


READING = {"loads", "load", "load_object", "read_object", "recv", "recv_fds", "recv_into", "recvmsg"}

ELSEWHERE = {
    # what it was started with, by a process that waits for it: what it cannot read ends it, and nothing else
    "engines/watch:RunWatcher.__init__",
    "engines/watch:_engine",
    "engines/watch:_is_elsewhere",
    "launch/prestart:main",
    "launch/supervisor:adopt",
    "worker/order:_Message.receive",
    "worker/result_files:",
    # it is handed to one of the readers above, or compared, or a signal's number
    "doctor/installed:ask_framework",
    "engines/ray_driver:Node.supervise",
    "launch/lifetime:Wakeup.received",
    "launch/meters:GpuProbe.loads",
    "launch/meters:Meters._measure",
    "warm/standby:_assigned_run.find",
    # what torch and VisualDL say in the same process
    "board/visualdl_app:View._listing",
    "worker/history:_dumped",
    "worker/stack_answers:recorded",
    # files of the package, and values that a user's own class reads
    "__init__:load_ipython_extension",
    "store/results:_read_pickle",
    "tables:read_table",
    "values/box:read",
    "worker/spawned_main:",
}
"""Readers that are not in the table, by why they need not be."""


def readers_of(path: Path) -> Iterator[str]:
    """Yield the functions of a module that read what others have written."""

    def look(node: ast.AST, within: tuple[str, ...]) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            if isinstance(child, ast.Call):
                called = child.func
                if getattr(called, "attr", getattr(called, "id", "")) in READING:
                    yield ".".join(within)
            yield from look(child, (*within, child.name) if named else within)

    text = path.read_text(encoding="utf-8")
    return look(ast.parse(text), ()) if any(f"{name}(" in text for name in READING) else iter(())


def test_no_reader_is_missing_here() -> None:
    package = Path(options.__file__).parents[1]
    readers = {
        f"{path.relative_to(package).with_suffix('').as_posix()}:{name}"
        for path in package.rglob("*.py")
        for name in readers_of(path)
    }

    known = {name for reader in READERS for name in reader.names}
    assert readers - known - ELSEWHERE == set(), "add it to the table, with what it reads"
    assert ELSEWHERE - readers == set(), "it reads nothing any more"
