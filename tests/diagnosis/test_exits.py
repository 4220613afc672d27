"""Exit codes in words."""

from __future__ import annotations

import json
from pathlib import Path

from nbdist.diagnosis import describe_exit

SAMPLES = json.loads((Path(__file__).parent / "exits.json").read_text())


def test_an_exit_is_read_aloud_in_both_languages() -> None:
    for language in ("en", "zh"):
        texts = [describe_exit(**sample["asked"], language=language) for sample in SAMPLES]
        assert texts == [sample[language] for sample in SAMPLES]
