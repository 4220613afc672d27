"""One notice of a run: what ``nbdist explain`` says of it, in the form that the address takes."""

from __future__ import annotations

import json
import os
import shutil
import smtplib
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from nbdist import config
from nbdist.feed.curves import read_curves
from nbdist.feed.explanation import Explanation, explain_run
from nbdist.launch.binding import NOTIFY
from nbdist.model import AT_LIMIT, Run
from nbdist.store.paths import RunDirectory
from nbdist.store.run_store import snapshot
from nbdist.text import say

_SECONDS = 8.0
_ROOM = 1500  # characters, of the 2,000 that a message of Discord has
_METRICS = 8


def main(arguments: Sequence[str]) -> int:
    """Send the notice of ``RUN_DIR`` to the URL in NBDIST_NOTIFY; return 1 where it cannot be sent."""
    url = os.environ.pop(NOTIFY)
    try:
        directory = RunDirectory(Path(arguments[0]))
        if (run := snapshot(directory)) is not None:
            send(url, notice_of(run, directory))
    except (OSError, smtplib.SMTPException, subprocess.SubprocessError, ValueError) as error:
        # without the path, in which such addresses have their secret
        print(
            f"nbdist: the notice to {urlsplit(url).hostname or 'mail'} was not sent: {error}", file=sys.stderr
        )
        return 1
    return 0


def notice_of(run: Run, directory: RunDirectory) -> dict[str, Any]:
    """Return the notice as any program gets it; ``text`` is for people."""
    language = config.language()
    explanation = explain_run(run, directory, language)
    metrics = {curve.tag: curve.last for curve in read_curves(run, directory)[:_METRICS]}
    shown = "  ".join(f"{tag}={value:.4g}" for tag, value in metrics.items())
    text = "\n".join(filter(None, (str(explanation), shown)))
    return {
        "event": _event(run),
        "run": run.run_id,
        "label": run.label,
        "title": say("panel.notice", language, label=run.label, state=_title(run, language)),
        "text": text if len(text) <= _ROOM else f"{text[:_ROOM]}…",
        "metrics": metrics,
        **_failure(explanation),
    }


def _event(run: Run) -> str:
    if not run.state.terminal:
        return "stalled"
    return "limit" if run.reason.code == AT_LIMIT else run.state.value


def _title(run: Run, language: str) -> str:
    word = "panel.stalled" if not run.state.terminal else f"panel.run-{run.state.value}"
    return say(word, language)


def _failure(explanation: Explanation) -> dict[str, Any]:
    failure = explanation.failure
    if failure is None:
        return {}
    return {"rank": failure.rank, "line": failure.line, "exception": failure.kind}


def _feishu(notice: Mapping[str, Any]) -> object:
    return {"msg_type": "text", "content": {"text": notice["text"]}}


def _dingtalk(notice: Mapping[str, Any]) -> object:
    return {"msgtype": "text", "text": {"content": notice["text"]}}


def _slack(notice: Mapping[str, Any]) -> object:
    return {"text": notice["text"]}


def _discord(notice: Mapping[str, Any]) -> object:
    return {"content": notice["text"]}


_FORMS: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "open.feishu.cn": _feishu,
    "open.larksuite.com": _feishu,
    "oapi.dingtalk.com": _dingtalk,
    "qyapi.weixin.qq.com": _dingtalk,
    "hooks.slack.com": _slack,
    "discord.com": _discord,
    "discordapp.com": _discord,
}


def form_of(url: str, notice: Mapping[str, Any]) -> tuple[str, object]:
    """Return where to send a notice, and its JSON, by the host of the URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host.split(".")[0] == "ntfy":
        message = {"topic": parts.path.strip("/"), "title": notice["title"], "message": notice["text"]}
        return parts._replace(path="/", query="").geturl(), message
    return url, _FORMS.get(host, dict)(notice)


def send(url: str, notice: Mapping[str, Any]) -> None:
    """Send a notice. Raises OSError, SMTPException, SubprocessError or ValueError."""
    if url.startswith("mailto:"):
        _mail(unquote(urlsplit(url).path), notice)
        return
    place, message = form_of(url, notice)
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "nbdist"}
    request = urllib.request.Request(place, json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=_SECONDS):
        pass


def _mail(address: str, notice: Mapping[str, Any]) -> None:
    """Mail a notice by the server in NBDIST_SMTP (``smtp://user:password@host:587``), or by sendmail."""
    mail = EmailMessage()
    mail["To"], mail["Subject"] = address, notice["title"]
    mail.set_content(notice["text"])
    if server := os.environ.get("NBDIST_SMTP"):
        parts = urlsplit(server)
        mail["From"] = unquote(parts.username or "") or address
        with smtplib.SMTP(parts.hostname or "localhost", parts.port or 25, timeout=_SECONDS) as smtp:
            if parts.username:
                smtp.starttls()
                smtp.login(unquote(parts.username), unquote(parts.password or ""))
            smtp.send_message(mail)
        return
    program = shutil.which("sendmail", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/lib")
    if program is None:
        raise ValueError("there is no sendmail here: set  NBDIST_SMTP=smtp://user:password@host:587")
    subprocess.run([program, "-t", "-i"], input=bytes(mail), check=True, timeout=_SECONDS)
