"""A report: one file with everything about its runs, and nothing about the machine."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nbdist.errors import LaunchError, UsageMistake
from nbdist.model import RunState
from nbdist.panel.report_file import write_report
from nbdist.privacy import MASK
from nbdist.worker import records
from nbdist.worker.records import FILE_NAME
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, exited, run_ended


@pytest.fixture
def run(tmp_path: Path) -> WrittenRun:
    """Return a run whose two ranks logged, printed and showed something, and succeeded."""
    run = WrittenRun(tmp_path / "home", cell="import torch\nprint('<hello>')\n")
    run.happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))
    for rank in (0, 1):
        run.printed(rank, f"\x1b[32mstep\x1b[0m 1/2 - val_loss: 0.5\nrank {rank} says </script> & done\n")
        with run.directory.rank(rank).metrics.open("a") as file:
            for step in range(3):
                values = {"t": CREATED + step, "step": step, "v": {"loss": 1 / (step + 1) + rank}}
                file.write(json.dumps(values | ({"hparams": {"lr": 0.1}} if step == 0 else {})) + "\n")
    folder = run.directory.board / "rank0.image"
    folder.mkdir(parents=True)
    frame = records.encode("samples", 7, 1, records.image(b"\x89PNG" + bytes(30)))
    (folder / FILE_NAME).write_bytes(frame)
    return run


def written(run: WrittenRun, path: Path, language: str = "en", **options: int) -> str:
    write_report([(run.run, run.directory)], path, language, **options)
    return path.read_text()


@dataclass(frozen=True)
class Played:
    """The content of a page's messages."""

    contents: list[dict[str, Any]]
    logs: list[str]
    media: dict[str, bytes]

    @property
    def tags(self) -> list[str]:
        return [chart["tag"] for content in self.contents for chart in content["charts"]]


def played(page: str) -> Played:
    """Read a page as its script does."""
    contents, logs, media = [], [], {}
    for run in page.split("data-nbdist-run>")[1:]:
        texts: dict[int, bytes] = {}
        ends: dict[int, int] = {}
        for packed in re.findall(r'<script type="text/plain">([^<]*)</script>', run):
            frame = gzip.decompress(base64.b64decode(packed))
            size = int.from_bytes(frame[:4], "little")
            content = json.loads(frame[4 : 4 + size])
            assert content["kind"] == "update"
            contents.append(content)
            at = 4 + size
            for delta, length in zip(content["deltas"], content["buffers"], strict=False):
                rank, lines = delta["rank"], frame[at : at + length]
                assert delta["first"] == ends.get(rank, 0), "lines follow each other"
                assert delta["count"] == lines.count(b"\n") + 1 == sum(count for count, _ in delta["times"])
                texts[rank] = texts[rank] + b"\n" + lines if rank in texts else lines
                ends[rank] = delta["first"] + length + 1
                at += length
            for name in content.get("media", ()):
                media[name] = frame[at:]
        assert contents[-1]["complete_until"] is None
        logs += [texts[rank].decode() for rank in sorted(texts)]
    return Played(contents, logs, media)


def logs_in(page: str) -> list[str]:
    return played(page).logs


def test_a_report_has_the_curves_pictures_settings_logs_and_the_cell(run: WrittenRun, tmp_path: Path) -> None:
    page = written(run, tmp_path / "report.html")

    assert played(page).tags == ["loss", "val_loss"]
    assert "data:image/png;base64," in page
    assert "<tr><th>lr</th><td>0.1</td></tr>" in page
    first = played(page).contents[0]
    assert first["cell"] == "import torch\nprint('<hello>')\n"
    assert (first["view"]["label"], first["view"]["state"]) == (run.run.label, "finished")
    assert [log.splitlines()[-1] for log in logs_in(page)] == [
        f"rank {rank} says </script> & done" for rank in (0, 1)
    ]


def test_without_scripts_a_report_has_the_summary_and_the_cell(run: WrittenRun, tmp_path: Path) -> None:
    page = written(run, tmp_path / "report.html").partition("<body>")[2].partition("<script")[0]

    assert "rank 1 says &lt;/script&gt; &amp; done" in page
    assert "print(&#x27;&lt;hello&gt;&#x27;)" in page
    assert re.search(r"loss <b>0.8333</b>.*<polyline", page)


def test_a_report_loads_nothing_and_lets_no_other_script_run(run: WrittenRun, tmp_path: Path) -> None:
    page = written(run, tmp_path / "report.html")

    marked, _, script = page.partition('<script type="module">')
    assert re.findall(r'(?:src|href)="(?!data:)', marked) == []
    assert set(re.findall(r"<script[^>]*>", marked)) == {'<script type="text/plain">'}
    assert script.count("</script") == 1
    (digest,) = re.findall(r"default-src 'none'; script-src 'sha256-([^']*)';", marked)
    assert base64.b64decode(digest) == hashlib.sha256(script.partition("</script")[0].encode()).digest()


@pytest.mark.parametrize(("language", "title"), [("en", "Hyperparameters"), ("zh", "超参数")])
def test_a_report_speaks_the_language_of_who_exports(
    run: WrittenRun, tmp_path: Path, language: str, title: str
) -> None:
    assert f"<h2>{title}</h2>" in written(run, tmp_path / "report.html", language)


def show(run: WrittenRun, rank: int, content: bytes, ending: str = "png") -> str:
    """Write an output of a rank, as ``worker.display`` does; return the name of its file."""
    files = run.directory.rank(rank)
    name = f"{hashlib.sha256(content).hexdigest()[:32]}.{ending}"
    files.media.mkdir(parents=True, exist_ok=True)
    (files.media / name).write_bytes(content)
    mime = {"png": "image/png", "html": "text/html"}[ending]
    record = {"t": CREATED + 5, "at": 0, "file": name, "mime": mime, "text": "<Figure of /x>"}
    with files.display.open("a") as file:
        file.write(json.dumps(record) + "\n")
    run.printed(rank, f"\x1b]nbdist;{name};400;200\x07<Figure of /x>\n")
    return name


def test_what_the_ranks_showed_is_in_the_log_and_where_no_script_runs(
    run: WrittenRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef-my-key")
    picture = show(run, 0, b"\x89PNG and more")
    show(run, 1, b"\x89PNG and more")
    table = show(run, 1, b"<table><tr><td>0123456789abcdef-my-key</td></tr></table>", "html")

    page = written(run, tmp_path / "report.html")

    content = played(page)
    masked = f"<table><tr><td>{MASK}</td></tr></table>"
    assert content.media == {picture: b"\x89PNG and more", table: masked.encode()}
    assert [f"nbdist;{picture};400;200\x07" in log for log in content.logs] == [True, True]
    instead = page.partition("<body>")[2].partition("<script")[0]
    data = base64.b64encode(b"\x89PNG and more").decode()
    assert instead.count(f'<img alt="&lt;Figure of /x&gt;" src="data:image/png;base64,{data}">') == 1
    assert f"<div>{masked}</div>" in instead
    assert "0123456789abcdef" not in page


def test_pictures_of_the_log_for_which_there_is_no_room_are_counted(run: WrittenRun, tmp_path: Path) -> None:
    names = [show(run, 0, b"\x89PNG" + bytes([number]) * (7 << 20)) for number in range(8)]

    report = write_report([(run.run, run.directory)], tmp_path / "report.html", "en")

    kept = played((tmp_path / "report.html").read_text()).media
    assert list(kept) == names[:1:-1]
    assert f"2 pictures and tables of the log, all of them with  nbdist attach {run.run.label}" in report.text


def test_several_runs_are_laid_side_by_side(run: WrittenRun, tmp_path: Path) -> None:
    other = WrittenRun(tmp_path / "home", a_spec(run_id="20261120-151503-other-p2x7"))
    other.recorded(0, loss=9.0)
    other.printed(0, "alone\n")

    write_report([(run.run, run.directory), (other.run, other.directory)], tmp_path / "report.html", "en")

    page = (tmp_path / "report.html").read_text()
    assert re.findall(r'<tr><td><span class="n-rank n-k\d">(\d)</span> <code>', page) == ["0", "1"]
    assert logs_in(page)[2:] == ["alone"]
    assert page.count("<div data-nbdist-overlay>") == 1
    views = [content["view"] for content in played(page).contents if content["view"]]
    assert [view["label"] for view in views] == [run.run.label, other.run.label]


def test_where_a_run_failed_its_report_says_so(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "home", cell="x = 1\n1 / 0\n")
    run.happened(*STARTED, exited(1, 1), exited(0, -15), run_ended(RunState.FAILED, "rank 1 failed"))
    cell = str(run.directory.cell)
    run.raised(1, "ZeroDivisionError", "division by zero", frames=[(cell, 2, "<module>", "1 / 0")])

    page = written(run, tmp_path / "report.html")

    assert "rank 1 failed first: ZeroDivisionError" in page
    assert "division by zero" in page
    failure = played(page).contents[0]["view"]["failure"]
    assert (failure["rank"], failure["message"]) == (1, "ZeroDivisionError: division by zero")


def test_no_path_of_the_user_and_no_secret_is_in_it(
    run: WrittenRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef-my-key")
    home = run.directory.path.parent.parent
    run.printed(
        0, f"saved to {tmp_path}/ann/model.pt and {run.directory.path}/x with 0123456789abcdef-my-key\n"
    )
    run.printed(1, f"at {home}/elsewhere\n")

    page = written(run, tmp_path / "report.html")

    everything = page + "".join(logs_in(page)) + json.dumps(played(page).contents)
    assert str(tmp_path) not in everything
    assert "0123456789abcdef" not in everything
    assert "saved to ~/model.pt" in logs_in(page)[0]
    assert "at $NBDIST_HOME/elsewhere" in logs_in(page)[1]


def test_of_a_run_that_goes_on_a_report_says_so(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "home")
    run.happened(*STARTED)

    page = written(run, tmp_path / "report.html")

    view = played(page).contents[0]["view"]
    assert (view["state"], view["live"]) == ("running", False)
    assert view["notes"] == ["The run was still running when this was exported."]
    assert "The run was still running" in page


def test_arguments_and_settings_that_look_like_secrets_are_masked(tmp_path: Path) -> None:
    spec = a_spec(args=("--api-key", "hunter22", "db.password=swordfish"))
    run = WrittenRun(tmp_path / "home", spec, cell="1\n")
    run.happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))
    run.printed(0, "Namespace(api_key='hunter22') swordfish\n")
    with run.directory.rank(0).metrics.open("a") as file:
        point = {"t": CREATED, "step": 0, "v": {}, "hparams": {"api_key": "hush", "lr": 0.1}}
        file.write(json.dumps(point) + "\n")

    page = written(run, tmp_path / "report.html")

    everything = page + "".join(logs_in(page)) + json.dumps(played(page).contents)
    assert [word for word in ("hunter22", "swordfish", "hush") if word in everything] == []
    assert "api_key" in page


def test_a_long_log_is_cut_with_a_line_that_says_where_all_of_it_is(run: WrittenRun, tmp_path: Path) -> None:
    run.printed(1, "".join(f"line {number}\n" for number in range(100_000)))

    first, second = logs_in(written(run, tmp_path / "report.html", room=100_000))

    assert first.endswith("& done")  # a short one is whole
    lines = second.splitlines()
    assert "val_loss: 0.5" in lines[0]
    assert lines[-1] == "line 99999"
    assert len(second) < 101_000
    (cut,) = (line for line in lines if "left out" in line)
    assert f"nbdist logs {run.run.label} --rank 1" in cut


def test_more_tags_than_a_panel_keeps_are_drawn(run: WrittenRun, tmp_path: Path) -> None:
    with run.directory.rank(0).metrics.open("a") as file:
        for step in (0, 1):
            values = {f"layer{number}": number + step for number in range(70)}
            file.write(json.dumps({"t": CREATED + step, "step": step, "v": values}) + "\n")

    page = written(run, tmp_path / "report.html")

    assert [number for number in range(70) if f"layer{number}" not in played(page).tags] == []
    assert "r-missing" not in page.partition("<body>")[2]


@pytest.mark.parametrize(
    ("language", "tags", "logs"),
    [
        ("en", "1 of 2 metrics (val_loss)", "0.5 MB from the middle of the logs (rank 1)"),
        ("zh", "2 项指标中的 1 项（val_loss）", "日志中部的 0.5 MB（进程 1）"),
    ],
)
def test_what_has_no_room_in_a_report_is_said_where_it_begins(
    run: WrittenRun, tmp_path: Path, language: str, tags: str, logs: str
) -> None:
    run.printed(1, "".join(f"line {number}\n" for number in range(60_000)))
    path = tmp_path / "report.html"

    report = write_report([(run.run, run.directory)], path, language, room=100_000, tags=1)

    (missing,) = re.findall(r'<aside class="r-missing">(.*?)</aside>', path.read_text())
    assert tags in missing
    assert logs in missing
    assert f"nbdist logs {run.run.label} --rank 1" in missing
    assert "not in it" in report.text
    assert "1 of 2 metrics" in report.text


def test_a_report_replaces_an_older_one_and_is_open_to_others(run: WrittenRun, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    runs = [(run.run, run.directory)]

    first, second = write_report(runs, path, "en"), write_report(runs, path, "en")

    assert (first.replaced, second.replaced) == (False, True)
    umask = os.umask(0o022)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda path: path.mkdir(), "is a directory: write  --export .*html", id="a directory"),
        pytest.param(lambda path: path.write_text("import x\n"), "is no report of nbdist", id="another file"),
        pytest.param(lambda path: os.mkfifo(path), "is no report of nbdist", id="no file at all"),
    ],
)
def test_what_is_no_report_is_left_alone(run: WrittenRun, tmp_path: Path, make, message: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "train.py"
    make(path)

    with pytest.raises(UsageMistake, match=message):
        write_report([(run.run, run.directory)], path, "en")


def test_a_directory_that_is_missing_is_named(run: WrittenRun, tmp_path: Path) -> None:
    with pytest.raises(UsageMistake, match=r"needs the directory .*nowhere: make it, or write"):
        write_report([(run.run, run.directory)], tmp_path / "nowhere/report.html", "en")


def test_where_nothing_can_be_written_nothing_is_left(run: WrittenRun, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="cannot be written: File name too long"):
        write_report([(run.run, run.directory)], tmp_path / ("x" * 256), "en")
    assert not list(tmp_path.glob(".x*"))
