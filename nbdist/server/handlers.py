"""The HTTP API of the server extension: reading, stopping and removing runs."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, TypeVar

from jupyter_server.base.handlers import APIHandler
from tornado import web

from nbdist.diagnosis.exits import rank_ranges
from nbdist.diagnosis.silent import MistakeReader
from nbdist.diagnosis.stacks import take_stacks
from nbdist.errors import LaunchError, UsageMistake
from nbdist.feed.comparison import compare
from nbdist.feed.explanation import explain_run
from nbdist.feed.given import results_of
from nbdist.feed.measures import FailureWatch, glance
from nbdist.feed.profile import SPAN, read_profile, read_trace, start_profile
from nbdist.feed.report_text import report_text
from nbdist.feed.stalling import StallReader, stall_view
from nbdist.feed.view import view_of
from nbdist.model import Reason, Run
from nbdist.model.decoding import loads
from nbdist.model.sweep import MOST
from nbdist.options.ranks_line import option_list
from nbdist.options.recorded import first_line
from nbdist.server.backend import Handler, may_execute, signed_in
from nbdist.server.run_list import RunList, row_of
from nbdist.server.streams import program_of
from nbdist.store import RunDirectory, look
from nbdist.store.control import ask_sweep_to_end, ask_to_end, request_interrupt
from nbdist.store.held_ranks import ask, grouped, held_ranks
from nbdist.store.marks import read_marks, write_marks
from nbdist.store.paths import SweepDirectory
from nbdist.store.results import read_media
from nbdist.store.run_store import RUN_ID, is_run_locked
from nbdist.version import __version__

T = TypeVar("T")

LANGUAGES = ("en", "zh")


def detail_of(directory: RunDirectory, now: float) -> dict[str, Any] | None:
    """Return ``RunDetail`` in openapi.yaml; None when the run cannot be read."""
    run = look(directory)
    if run is None:
        return None
    seen = glance(run, directory, now)
    view = view_of(
        run,
        now=now,
        last_lines=seen.last_lines,
        system=seen.system,
        rates=seen.rates,
        progress=seen.progress,
        failure=FailureWatch(directory).look(run),
        stall=StallReader(directory).look(run),
        slow=seen.slow,
        training=seen.training,
        profile=read_profile(directory),
        results=results_of(run, directory),
        mistakes=MistakeReader(directory).look(run),
    )
    return {
        "row": row_of(run, directory, now).to_dict(),
        "view": view.to_dict(),
        "cell": program_of(directory),
        "line": first_line(run.spec.shown()),
        "spec": run.spec.shown().to_dict(),
    }


def summary_of(run: Run, directory: RunDirectory, language: str) -> dict[str, Any]:
    """Return ``Summary`` in openapi.yaml. Raises UsageMistake while the run goes on."""
    # it reads programs, for a rare request
    from nbdist.panel import ending

    if not run.state.terminal:
        raise UsageMistake(f"run {run.label} goes on")
    data, notes = ending(run, directory, language)
    return {"data": data, "notes": notes}


def stop(run: Run, directory: RunDirectory, reason: Reason) -> Run:
    """Request the run's end; return the run as it was before. Raises OSError."""
    if not run.state.terminal:
        ask_to_end(directory, run, reason)
    return run


def stop_sweep(directory: RunDirectory, reason: Reason) -> bool:
    """Request the sweep's end; return whether it was live. Raises OSError."""
    live = is_run_locked(directory)
    if live:
        ask_sweep_to_end(SweepDirectory(directory.path), reason)
    return live


def stacks(directory: RunDirectory) -> dict[str, Any]:
    """Return ``Stacks`` in openapi.yaml: the ranks as they are now, in the form of a stall."""
    report = take_stacks(directory)
    return {
        "time": report.time,
        "live": report.live,
        "problem": report.problem,
        "stall": asdict(stall_view(report, 0.0)),
    }


def interrupt(run: Run, directory: RunDirectory, rank: int) -> Run | None:
    """Request an interrupt of one rank; return the run as it was before, None without such a rank."""
    if rank >= run.spec.world_size:
        return None
    if not run.state.terminal:
        request_interrupt(directory, rank)
    return run


def debug(run: Run, directory: RunDirectory, ranks: list[int], command: str) -> dict[str, Any]:
    """Return ``Answers`` in openapi.yaml: those of held ranks to a command at their prompts."""
    prompts = {rank: prompt for rank, prompt in held_ranks(directory, run).items() if rank in ranks}
    answers = grouped(ask(prompts, command, _STOPS_AGAIN))
    return {"answers": [{"ranks": rank_ranges(ranks), "text": text} for ranks, text in answers]}


def media(run: Run, directory: RunDirectory, rank: int, name: str) -> bytes | None:
    """Return a file that a rank showed, or None."""
    return read_media(directory, rank, name, run.attempt) or None if rank < run.spec.world_size else None


def delete(directory: RunDirectory) -> bool:
    """Remove a run with all its files. Raises UsageMistake when it goes on, and OSError."""
    run = look(directory)
    if run is not None and not run.state.terminal:
        raise UsageMistake(f"run {run.label} goes on: stop it first")
    # out of the list at once, even if its files stay
    gone = directory.path.with_name(f".deleted-{secrets.token_hex(8)}")
    with contextlib.suppress(FileNotFoundError):
        os.rename(directory.path, gone)
    shutil.rmtree(gone, ignore_errors=True)
    return True


def mark(directory: RunDirectory, change: dict[str, Any], now: float) -> dict[str, Any] | None:
    """Change some marks of a run; return its row, None when it cannot be read. Raises OSError."""
    if (run := look(directory)) is None:
        return None
    write_marks(directory, replace(read_marks(directory), **change))
    return row_of(run, directory, now).to_dict()


def comparison_of(known: RunList, run_ids: list[str], *, curves: bool) -> dict[str, Any] | None:
    """Return ``Comparison`` in openapi.yaml of the readable runs; None without one."""
    directories = filter(None, map(known.directory, dict.fromkeys(run_ids)))
    runs = [(run, directory) for directory in directories if (run := look(directory)) is not None]
    return compare(runs).to_dict(all_rows=True, curves=curves) if runs else None


PROTOCOL = 1
_MOST_RUNS = 500
_MOST_ON_A_BOARD = 16
_SEARCH = 200
_REASON = 200
_STOPS_AGAIN = 5.0  # seconds until the next stop of a held rank after which the view tells of it
_TAGS, _TAG, _NOTE = 16, 40, 1000
_STOPPED_FROM = {
    "dashboard": Reason("stopped-from-dashboard"),
    "list": Reason("stopped-from-list"),
    "page": Reason("stopped-from-page"),
}
"""The reasons by the place of the Stop button; any other text is the client's own reason."""


class Api(Handler, APIHandler):
    """The base of the API's handlers, which check all that a page sends."""

    def write_error(self, status_code: int, **more: Any) -> None:
        if status_code == 405:
            verbs = [
                verb.upper()
                for verb in ("get", "head", "post", "patch", "delete")
                if verb in vars(type(self))
            ]
            self.set_header("Allow", ", ".join([*verbs, "OPTIONS"]))
        super().write_error(status_code, **more)

    async def found(
        self,
        work: Callable[..., T | None],
        *args: Any,
        missing: str = "the run cannot be read",
        refused: str = "",
        **more: Any,
    ) -> T:
        """Return what ``work`` returns in a thread. Raises HTTPError: ``missing`` for None, else
        ``refused``."""
        try:
            result = await self.backend.run(work, *args, **more)
        except UsageMistake as mistake:
            raise web.HTTPError(409, str(mistake)) from None
        except LaunchError as error:
            raise web.HTTPError(507, str(error)) from None
        except OSError as error:
            if not refused:
                raise
            raise web.HTTPError(507, f"{refused}: {error.strerror}".replace("%", "")) from None
        if result is None:
            raise web.HTTPError(404, missing)
        return result

    async def directory(self, run_id: str) -> RunDirectory:
        """Return the directory of a run of this user. Raises HTTPError."""
        return await self.found(self.backend.runs.directory, run_id, missing="there is no such run")

    async def of_run(self, run_id: str, work: Callable[..., T | None], *args: Any, **words: str) -> T:
        """Return the result of ``work`` with a run, its directory and ``args``, as ``found`` does."""
        directory = await self.directory(run_id)

        def read() -> T | None:
            run = look(directory)
            return None if run is None else work(run, directory, *args)

        return await self.found(read, **words)

    def language(self) -> str:
        """Return the language in the query. Raises HTTPError for one that nbdist lacks."""
        language = self.get_query_argument("language", "en")
        if language not in LANGUAGES:
            raise web.HTTPError(400, f"language is one of {', '.join(LANGUAGES)}")
        return language

    def number(self, name: str, *, least: int, most: int, default: int | None) -> int | None:
        """Return a number in the query. Raises HTTPError for anything else."""
        text = self.get_query_argument(name, None)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
            raise web.HTTPError(400, f"{name} is a number from {least} to {most}")
        return int(text)

    def rank(self, text: str) -> int:
        """Return the number of a rank in a path. Raises HTTPError."""
        if not (text.isascii() and text.isdigit() and len(text) < 6):
            raise web.HTTPError(404, "there is no such rank")
        return int(text)

    def body(self, *known: str) -> dict[str, Any]:
        """Return the object in the body, empty for none. Raises HTTPError for anything else in it."""
        if not self.request.body.strip():
            return {}
        try:
            body = loads(self.request.body)
        except ValueError:
            raise web.HTTPError(400, "the body is not JSON") from None
        if not isinstance(body, dict) or body.keys() - set(known):
            raise web.HTTPError(400, f"the body is an object with {', '.join(known) or 'nothing in it'}")
        return body

    def stop_reason(self) -> Reason:
        """Return the reason to stop in the body. Raises HTTPError."""
        reason = self.body("reason").get("reason", "page")
        if not isinstance(reason, str) or len(reason) > _REASON:
            raise web.HTTPError(400, f"reason is a text of at most {_REASON} characters")
        return _STOPPED_FROM.get(reason) or Reason.said(reason)

    def marks(self) -> dict[str, Any]:
        """Return the marks in the body, of those that ``Marks`` has. Raises HTTPError."""
        body = self.body("pinned", "tags", "note")
        tags, note = body.get("tags", []), body.get("note", "")
        if not isinstance(body.get("pinned", False), bool):
            raise web.HTTPError(400, "pinned is true or false")
        if not isinstance(note, str) or len(note) > _NOTE:
            raise web.HTTPError(400, f"note is a text of at most {_NOTE} characters")
        if not isinstance(tags, list) or len(tags) > _TAGS:
            raise web.HTTPError(400, f"tags is a list of at most {_TAGS}")
        if not all(isinstance(tag, str) and 0 < len(tag) <= _TAG for tag in tags):
            raise web.HTTPError(400, f"a tag is a text of at most {_TAG} characters")
        return {name: tuple(value) if name == "tags" else value for name, value in body.items()}

    def run_ids(self, body: dict[str, Any], *, most: int) -> list[str]:
        """Return the runs that a body names. Raises HTTPError."""
        run_ids = body.get("run_ids")
        if not isinstance(run_ids, list) or not 1 <= len(run_ids) <= most:
            raise web.HTTPError(400, f"run_ids is a list of up to {most} runs")
        if not all(isinstance(run_id, str) and RUN_ID.fullmatch(run_id) for run_id in run_ids):
            raise web.HTTPError(400, "run_ids are ids of runs")
        return run_ids

    def answer(self, content: dict[str, Any], status: int = 200) -> None:
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        self.finish(json.dumps(content, allow_nan=False))


class StatusHandler(Api):
    @signed_in
    def get(self) -> None:
        self.answer({"version": __version__, "protocol": PROTOCOL})


class RunsHandler(Api):
    @signed_in
    async def get(self) -> None:
        before = self.get_query_argument("before", None)
        if before is not None and not RUN_ID.fullmatch(before):
            raise web.HTTPError(400, "before is the id of a run")
        search = self.get_query_argument("search", "")
        if len(search) > _SEARCH:
            raise web.HTTPError(400, f"search has at most {_SEARCH} characters")
        limit = self.number("limit", least=1, most=_MOST_RUNS, default=50)
        page = await self.backend.run(self.backend.runs.page, limit=limit or 50, before=before, search=search)
        rows = [row.to_dict() for row in page.rows]
        self.answer({"runs": rows, "next": page.next, "live": page.live})


class RunHandler(Api):
    @signed_in
    async def get(self, run_id: str) -> None:
        directory = await self.directory(run_id)
        self.answer(await self.found(detail_of, directory, time.time()))

    @signed_in
    async def patch(self, run_id: str) -> None:
        change = self.marks()
        directory = await self.directory(run_id)
        row = await self.found(mark, directory, change, time.time(), refused="the run cannot be marked")
        self.backend.runs.read_again(run_id)
        self.backend.feed.hurry()
        self.answer(row)

    @signed_in
    async def delete(self, run_id: str) -> None:
        await self.found(delete, await self.directory(run_id), refused="the run cannot be removed")
        self.backend.streams.forget(run_id)
        self.backend.feed.hurry()
        self.set_status(204)
        self.finish()


class SummaryHandler(Api):
    @signed_in
    async def get(self, run_id: str) -> None:
        self.answer(await self.of_run(run_id, summary_of, self.language()))


class ExplainHandler(Api):
    @signed_in
    async def get(self, run_id: str) -> None:
        self.answer((await self.of_run(run_id, explain_run, self.language())).to_dict())


class ReportHandler(Api):
    @signed_in
    async def get(self, run_id: str) -> None:
        text = await self.of_run(run_id, report_text, self.language())
        self.set_header("Cache-Control", "no-store")
        await self.finish(text, set_content_type="text/plain; charset=utf-8")


class StopHandler(Api):
    @signed_in
    async def post(self, run_id: str) -> None:
        refused = "the run cannot be asked to end"
        run = await self.of_run(run_id, stop, self.stop_reason(), refused=refused)
        self.backend.feed.hurry()
        self.answer({"run_id": run_id, "state": run.state.value}, 200 if run.state.terminal else 202)


class StopSweepHandler(Api):
    @signed_in
    async def post(self, sweep_id: str) -> None:
        reason = self.stop_reason()
        find, missing = self.backend.sweeps.directory, "there is no such sweep"
        directory = await self.found(find, sweep_id, missing=missing)
        live = await self.found(stop_sweep, directory, reason, refused="the sweep cannot be asked to end")
        self.backend.feed.hurry()
        self.answer({"sweep_id": sweep_id, "live": live}, 202 if live else 200)


class StacksHandler(Api):
    @signed_in
    async def post(self, run_id: str) -> None:
        self.body()
        self.answer(await self.backend.run(stacks, await self.directory(run_id)))


class ProfileHandler(Api):
    @signed_in
    async def post(self, run_id: str) -> None:
        self.body()
        await self.of_run(run_id, start_profile, SPAN, refused="the profile cannot be started")
        self.answer({"run_id": run_id}, 202)

    @signed_in
    async def get(self, run_id: str) -> None:
        directory = await self.directory(run_id)
        data = await self.found(read_trace, directory, missing="the run has no profile")
        self.set_header("Content-Disposition", f'attachment; filename="{run_id}.json.gz"')
        self.set_header("Cache-Control", "no-store")
        await self.finish(data, set_content_type="application/gzip")


class InterruptHandler(Api):
    @signed_in
    async def post(self, run_id: str, rank: str) -> None:
        self.body()
        missing, refused = "the run has no such rank", "the rank cannot be interrupted"
        run = await self.of_run(run_id, interrupt, self.rank(rank), missing=missing, refused=refused)
        self.answer({"run_id": run_id, "state": run.state.value}, 200 if run.state.terminal else 202)


class DebugHandler(Api):
    @may_execute
    async def post(self, run_id: str) -> None:
        body = self.body("ranks", "command")
        ranks, command = body.get("ranks", []), body.get("command", "")
        numbers = isinstance(ranks, list) and not any(isinstance(rank, bool) for rank in ranks)
        if not numbers or not all(rank in range(100_000) for rank in ranks) or not isinstance(command, str):
            raise web.HTTPError(400, "ranks is a list of numbers up to 99999, and command a text")
        self.answer(await self.of_run(run_id, debug, ranks, command))


class MediaHandler(Api):
    @signed_in
    async def get(self, run_id: str, rank: str, name: str) -> None:
        missing = "the rank has shown no such thing"
        data = await self.of_run(run_id, media, self.rank(rank), name, missing=missing)
        # its page knows its type: opened by itself, it must not be a page of this server
        self.set_header("Content-Disposition", "attachment")
        self.set_header("Cache-Control", "private, max-age=86400, immutable")
        await self.finish(data, set_content_type="application/octet-stream")


class DevicesHandler(Api):
    @signed_in
    async def get(self) -> None:
        state = await self.backend.run(self.backend.machine.look)
        self.answer(state.to_dict())


class OptionsHandler(Api):
    @signed_in
    def get(self) -> None:
        self.answer({"options": option_list()})


class CompareHandler(Api):
    @signed_in
    async def post(self) -> None:
        body = self.body("run_ids", "curves")
        run_ids, curves = self.run_ids(body, most=MOST), body.get("curves", False)
        if not isinstance(curves, bool):
            raise web.HTTPError(400, "curves is true or false")
        missing, known = "there are no such runs", self.backend.runs
        self.answer(await self.found(comparison_of, known, run_ids, missing=missing, curves=curves))


class BoardHandler(Api):
    @signed_in
    async def post(self) -> None:
        run_ids = self.run_ids(self.body("run_ids"), most=_MOST_ON_A_BOARD)
        for run_id in run_ids:
            await self.directory(run_id)
        try:
            route = await self.backend.board_route(fresh=True)
        except LaunchError as error:
            raise web.HTTPError(503, str(error)) from None
        self.answer({"url": route.path(list(dict.fromkeys(run_ids)))})
