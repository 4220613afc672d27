"""Every row of the table, against what the software really prints; and none against healthy output."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import nbdist.diagnosis.signatures as signature_tables
from nbdist.diagnosis.complaints import complaint_of
from nbdist.diagnosis.exits import exit_kind
from nbdist.diagnosis.signatures import (
    Hint,
    Signature,
    Source,
    in_paddle,
    match,
    match_in,
    signatures,
    variant,
)
from nbdist.diagnosis.tracebacks import last_words, parse
from nbdist.store import ErrorReport
from nbdist.tables import read_table

HERE = Path(__file__).parent
TABLES = str(signature_tables.__file__)
SAMPLES = HERE / "samples"
HEALTHY = sorted((HERE / "healthy").glob("*.txt"))
ORIGINS = (
    "# produced here: ",
    "# from a public report: ",
    "# as the software words it: ",
    "# made up: ",
)
SIGNATURES = tuple(signatures().values())
WITH_SAMPLES = [one for one in SIGNATURES if one.source not in (Source.SITUATION, Source.PROGRAM)]


def sample_of(signature: Signature) -> str:
    """The sample without the line that says where it comes from."""
    origin, _, text = (SAMPLES / f"{signature.name}.txt").read_text().partition("\n")
    assert origin.startswith(ORIGINS)
    return text


def recognised(text: str) -> str | None:
    """The name of the signature that knows the text as the end of one rank."""
    if (exit_code := re.fullmatch(r"exit (-?\d+)( oom| limit)?\n", text)) is not None:
        kind = exit_kind(
            int(exit_code[1]), oom=exit_code[2] == " oom", limit=1 if exit_code[2] == " limit" else 0
        )
        known = match(kind, Source.EXIT)
        return known[0].name if known is not None else None
    chain = parse(text)
    if not chain:
        complaint = complaint_of(None, text.splitlines(), -6)
    else:
        last = [raised for raised in chain if raised.link != "inside"][-1]
        report = ErrorReport(type=last.type, message=last.message, frames=last.frames, text=text, time=1.0)
        complaint = complaint_of(report, [], 1)
    assert complaint is not None
    return complaint.signature.name if complaint.signature is not None else None


def test_each_signature_knows_what_the_software_prints() -> None:
    known = {signature.name: recognised(sample_of(signature)) for signature in WITH_SAMPLES}

    assert {name: other for name, other in known.items() if other != name} == {}


def test_each_sample_belongs_to_a_signature() -> None:
    assert {path.stem for path in SAMPLES.glob("*.txt")} == {signature.name for signature in WITH_SAMPLES}


def test_names_are_unique() -> None:
    names = Counter(name for table in signature_tables._TABLES for name in read_table(TABLES, table))

    # of two rows with one name the later one would take the place of the other, in silence
    assert [name for name, times in names.items() if times > 1] == []


def test_a_program_of_paddle_is_told_no_call_of_torch() -> None:
    called = re.compile(r"torch\.\w+\.|\bDistributedSampler")
    others = (one for one in SIGNATURES if one.framework != "torch")

    assert [one.name for one in others if called.search(in_paddle(one.fix + one.fix_zh))] == []


def test_cause_and_fix_are_one_line_each_in_both_languages() -> None:
    assert [one.name for one in SIGNATURES if not is_in_both_languages(one)] == []


def is_in_both_languages(signature: Signature) -> bool:
    english, chinese = (signature.cause, signature.fix), (signature.cause_zh, signature.fix_zh)
    lines = all(text and "\n" not in text and len(text) <= 130 for text in (*english, *chinese))
    written = re.compile("[\u4e00-\u9fff]")
    return lines and bool(written.search("".join(chinese))) and not written.search("".join(english))


def test_what_a_hint_quotes_is_in_the_pattern() -> None:
    for signature in WITH_SAMPLES:
        groups = dict.fromkeys(re.compile(signature.pattern).groupindex, "7")

        hint = Hint.of(signature, groups)

        assert "?" not in hint.cause.en.replace("?:", ""), signature.name


@pytest.mark.parametrize("log", HEALTHY, ids=lambda path: path.stem)
def test_no_signature_matches_the_log_of_a_healthy_run(log: Path) -> None:
    lines = log.read_text().splitlines()

    # stricter than what is searched in a failure: each line, and all of them
    assert [(match(line), line) for line in lines if match(line) is not None] == []
    assert match("\n".join(lines)) is None
    assert last_words(lines) is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", ["x", "7", "[", " ", "a.b/", "1, ", "'a', ", "Error: ", "shape is [1, 2] "])
def test_no_pattern_gets_lost_in_a_long_text(part: str) -> None:
    text = part * 20_000

    assert match(text) is None
    assert match_in(text, text) is None
    assert [
        row.name for row in SIGNATURES if row.where and variant(row, text) is not row and not row.of
    ] == []


def test_there_are_logs_of_healthy_runs() -> None:
    assert len(HEALTHY) >= 8


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("KeyError: 'learning_rate'", id="a key"),
        pytest.param("ValueError: image 3 is no picture", id="a message of the program's own"),
        pytest.param("AssertionError", id="a bare assertion"),
        pytest.param("RuntimeError: the model did not converge after 30 epochs", id="a run-time error"),
        pytest.param("TimeoutError: no answer from the annotation service", id="a time-out of its own"),
        pytest.param("TypeError: train() missing 1 required positional argument: 'epochs'", id="arguments"),
        pytest.param("ValueError: connection string is empty", id="a connection of its own"),
    ],
)
def test_an_unknown_error_has_no_hint(text: str) -> None:
    assert match(text) is None


def test_a_bare_error_is_told_by_the_library_that_raised_it() -> None:
    tokenizers = "/v/site-packages/transformers/tokenization_utils_base.py"
    known = match_in("AttributeError", f"model(inputs)\nraised in {tokenizers}")

    assert known is not None
    assert known[0].name == "encoding-as-tensor"
    assert match_in("AttributeError", f"model(inputs)\n{tokenizers}") is None


GATHERED = "\n/v/site-packages/accelerate/utils/operations.py"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        pytest.param(
            "Trainer(preprocess_logits_for_metrics=chosen)\n/v/site-packages/transformers/trainer.py"
            + GATHERED,
            "collective-sizes-of-logits",
            id="what the Trainer gathers",
        ),
        pytest.param(
            "boxes = accelerator.gather_for_metrics(boxes)" + GATHERED,
            "collective-sizes-of-metrics",
            id="what the program gathers",
        ),
        pytest.param(
            "preds.append(accelerator.gather(logits.argmax(-1)))" + GATHERED,
            "collective-sizes-of-gather",
            id="what the program gathers as it is",
        ),
        pytest.param("loss = accelerator.gather(loss)" + GATHERED, "collective-sizes", id="something else"),
    ],
)
def test_tensors_of_other_sizes_are_told_by_what_gathers_them(program: str, said: str) -> None:
    assert variant(signatures()["collective-sizes"], program).name == said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param("Options.__init__()", "argument-unknown-of-program", id="a class of the program"),
        pytest.param("Option.__init__()", "argument-unknown", id="another class"),
        pytest.param("train()", "argument-unknown-of-program", id="a function of the program"),
        pytest.param("main.<locals>.Options.scaled()", "argument-unknown-of-program", id="a method"),
    ],
)
def test_what_the_program_defines_needs_no_other_version_of_a_library(error: str, said: str) -> None:
    known = match(f"TypeError: {error} got an unexpected keyword argument 'dropout'")
    assert known is not None

    program = "@dataclass\nclass Options:\n    lr: float\n\ndef train(model):\n    pass\n"
    assert variant(known[0], program, known[1].groupdict()).name == said


@pytest.mark.parametrize(
    ("known", "program", "said"),
    [
        pytest.param(
            "paddle-label-out-of-range",
            "        mask = T.resize(self.masks[i], SIZE)\n",
            "paddle-mask-resized",
            id="masks mixed",
        ),
        pytest.param(
            "paddle-label-out-of-range",
            "label = cv2.resize(label, (64, 64), interpolation=cv2.INTER_LINEAR)\n",
            "paddle-mask-resized",
            id="masks mixed as is written",
        ),
        pytest.param(
            "paddle-label-out-of-range",
            "mask = cv2.resize(\n    mask, size(image),\n    interpolation=cv2.INTER_NEAREST)\n",
            "paddle-label-out-of-range",
            id="masks of the nearest",
        ),
        pytest.param(
            "paddle-label-out-of-range",
            "mask = cv2.resize(mask, size, interpolation=how)\n",
            "paddle-label-out-of-range",
            id="masks somehow",
        ),
        pytest.param(
            "paddle-label-out-of-range",
            "image = T.resize(image, SIZE)\nmask = load(path)\n",
            "paddle-label-out-of-range",
            id="images alone",
        ),
        pytest.param(
            "truth-of-array",
            "/v/site-packages/paddle/metric/metrics.py",
            "truth-in-paddle-metric",
            id="a metric of paddle",
        ),
        pytest.param(
            "image-array-shape",
            "from visualdl import LogWriter",
            "image-array-shape-of-visualdl",
            id="VisualDL",
        ),
        pytest.param(
            "paddle-gradient-twice",
            "model = paddle.DataParallel(net)\nmodel(x).mean().backward()\n",
            "paddle-unused-used-later",
            id="unused in the first step",
        ),
        pytest.param(
            "paddle-gradient-twice",
            "model = paddle.DataParallel(net, find_unused_parameters=True)\n",
            "paddle-gradient-twice",
            id="unused looked for in each step",
        ),
        pytest.param(
            "paddle-gradient-twice",
            "x = recompute(self.block, x)\n",
            "paddle-gradient-twice",
            id="computed again",
        ),
        pytest.param(
            "paddle-ids-not-integers",
            "/v/site-packages/paddle/hapi/model_summary.py",
            "paddle-summary-of-ids",
            id="a summary of ids",
        ),
        pytest.param(
            "empty-loader",
            "import paddle\nloader = DataLoader(data, batch_size=8, collate_fn=collate)\n",
            "paddle-loader-without-batch",
            id="a collate_fn of paddle",
        ),
        pytest.param(
            "empty-loader",
            "import paddle\nloader = DataLoader(data, batch_size=8)\n",
            "empty-loader",
            id="no collate_fn",
        ),
        pytest.param(
            "list-too-short",
            "opt.step()\nraised in /v/site-packages/paddle/optimizer/optimizer.py",
            "paddle-optimizer-empty",
            id="an optimizer of nothing",
        ),
        pytest.param(
            "more-to-unpack",
            "raised in /v/site-packages/paddle/nn/layer/container.py",
            "paddle-sequential-of-list",
            id="layers in a list",
        ),
        pytest.param(
            "paddle-broadcast",
            "raised in /v/site-packages/paddle/nn/layer/transformer.py",
            "paddle-attention-mask",
            id="a mask of attention",
        ),
        pytest.param(
            "number-not-iterable",
            "F.interpolate(x, size=16)\nraised in /v/site-packages/paddle/nn/functional/common.py",
            "paddle-interpolate-number",
            id="a size of one number",
        ),
        pytest.param(
            "range-of-nothing",
            "/v/site-packages/paddle/vision/transforms/transforms.py",
            "paddle-crop-too-large",
            id="a crop",
        ),
        pytest.param(
            "paddle-dtype",
            "loss = F.ctc_loss(logits, labels, n, m)\n/v/site-packages/paddle/nn/functional/loss.py",
            "paddle-ctc-labels",
            id="labels of ctc_loss",
        ),
        pytest.param(
            "more-to-unpack",
            "raised in /v/site-packages/ignite/engine/__init__.py",
            "batch-of-ignite",
            id="a batch of ignite",
        ),
        pytest.param(
            "more-to-unpack",
            "/v/site-packages/ignite/engine/engine.py\nraised in /v/site-packages/ignite/metrics/accuracy.py",
            "metric-of-a-long-step",
            id="a step of ignite that returns more",
        ),
        pytest.param(
            "number-not-iterable",
            "raised in /v/site-packages/ignite/metrics/accuracy.py",
            "metric-of-a-step",
            id="a step of ignite that returns its loss",
        ),
        pytest.param(
            "lists-subtracted",
            "raised in /v/site-packages/accelerate/accelerator.py",
            "loss-of-trainer",
            id="a loss that is a tuple",
        ),
        pytest.param(
            "number-looped-over",
            "    def compute_loss(self, model, inputs, return_outputs=False):\n"
            "/v/site-packages/transformers/trainer.py\n/v/site-packages/torch/_tensor.py",
            "loss-without-outputs",
            id="a loss alone at an evaluation",
        ),
        pytest.param(
            "attribute-of-a-list",
            "raised in /v/site-packages/transformers/models/bert/modeling_bert.py",
            "list-for-tensor",
            id="a list for a model of transformers",
        ),
        pytest.param(
            "shapes-differ",
            "/v/site-packages/transformers/models/llama/modeling_llama.py\n"
            "raised in /v/site-packages/transformers/integrations/sdpa_attention.py",
            "heads-in-transformers",
            id="heads in attention",
        ),
        pytest.param(
            "name-overwritten",
            "raised in /v/site-packages/ignite/engine/__init__.py",
            "loss-of-ignite",
            id="losses in a dict",
        ),
        pytest.param(
            "weights-shared",
            "/v/site-packages/transformers/trainer.py\nraised in /v/site-packages/safetensors/torch.py",
            "weights-shared-in-trainer",
            id="saved by the Trainer",
        ),
        pytest.param(
            "file-missing",
            "accelerator.load_state(folder)\n/v/site-packages/accelerate/checkpointing.py",
            "state-not-in-folder",
            id="a folder without a state",
        ),
        pytest.param(
            "split-lengths", "a, b = random_split(data, [0.8, 0.3])", "split-fractions", id="fractions"
        ),
        pytest.param("split-lengths", "a, b = random_split(data, [80, 30])", "split-lengths", id="lengths"),
        pytest.param(
            "paddle-dimensions",
            "model.fit(train_X, epochs=2)\n/v/site-packages/paddle/hapi/model.py",
            "paddle-fit-array",
            id="an array in place of a dataset",
        ),
        pytest.param(
            "paddle-dimensions",
            "model.fit(train_set, epochs=2)\n/v/site-packages/paddle/hapi/model.py",
            "paddle-dimensions",
            id="a dataset",
        ),
        pytest.param(
            "paddle-dimensions",
            "/v/site-packages/paddle/jit/api.py\n/v/site-packages/paddle/nn/layer/conv.py",
            "paddle-dimensions-of-spec",
            id="the shape of input_spec",
        ),
        pytest.param(
            "paddle-gradient-twice",
            "for loss in losses:\n    loss.backward(retain_graph=True)",
            "paddle-backward-for-each-loss",
            id="a backward() for each loss",
        ),
        pytest.param(
            "paddle-gradient-twice", "loss.backward()", "paddle-unused-used-later", id="one backward()"
        ),
        pytest.param(
            "paddle-model-load",
            "model.save(path, training=False)\nmodel.load(path)",
            "paddle-model-saved-for-inference",
            id="saved for inference",
        ),
        pytest.param(
            "no-loss-returned",
            "model = AutoModelForCausalLM.from_pretrained(name)",
            "no-loss-of-language-model",
            id="a language model",
        ),
        pytest.param(
            "no-loss-returned",
            "model = GPT2LMHeadModel(config)",
            "no-loss-of-language-model",
            id="a language model by its class",
        ),
        pytest.param(
            "no-loss-returned",
            "model = AutoModelForMaskedLM.from_pretrained(name)",
            "no-loss-of-language-model",
            id="a language model of masks",
        ),
        pytest.param(
            "no-loss-returned",
            "model = AutoModelForSequenceClassification.from_pretrained(name)",
            "no-loss-returned",
            id="a model that tells classes",
        ),
        pytest.param(
            "no-loss-returned",
            "model = BertForPreTraining(config)",
            "no-loss-returned",
            id="a model of two tasks",
        ),
        pytest.param(
            "no-loss-in-forward",
            "model = AutoModelForCausalLM.from_pretrained(name)",
            "no-loss-in-forward",
            id="a language model that has labels",
        ),
        pytest.param(
            "paddle-static-left-on",
            "paddle.enable_static()\nexe = paddle.static.Executor()\nloss.backward()",
            "paddle-static-left-on",
            id="both modes",
        ),
        pytest.param(
            "paddle-static-left-on",
            "paddle.enable_static()\nexe = paddle.static.Executor()\nopt.minimize(loss)",
            "paddle-static-argument",
            id="static mode alone",
        ),
        pytest.param(
            "cuda-not-built",
            "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\ntorch.cuda.synchronize()",
            "cuda-asked-all-the-same",
            id="a device that was chosen",
        ),
        pytest.param("cuda-not-built", "model.cuda()", "cuda-not-built", id="no device"),
        pytest.param(
            "number-not-iterable",
            "DataLoader(data, batch_sampler=sampler)\n/v/paddle/io/dataloader/fetcher.py",
            "paddle-batch-sampler-of-ones",
            id="a batch_sampler of single indices",
        ),
        pytest.param("number-not-iterable", "for i in n:", "number-not-iterable", id="a loop"),
        pytest.param(
            "paddle-dtype", "/v/paddle/hapi/model_summary.py", "paddle-dtype-of-summary", id="a summary"
        ),
        pytest.param(
            "attribute-of-several",
            "raised in /v/ignite/metrics/accuracy.py",
            "metric-of-several",
            id="a metric",
        ),
    ],
)
def test_a_situation_is_told_by_the_program(known: str, program: str, said: str) -> None:
    assert variant(signatures()[known], program).name == said


@pytest.mark.parametrize(
    ("name", "program", "said"),
    [
        ("keepdims", "x.numpy().max(keepdims=True)\n/v/paddle/jit/api.py", "paddle-numpy-in-traced"),
        ("keepdims", "x.numpy().max(keepdims=True)", "argument-unknown"),
        ("width", "net(width=3)\n/v/paddle/jit/api.py", "argument-unknown"),
    ],
)
def test_an_argument_of_numpy_in_what_paddle_traces_is_told(name: str, program: str, said: str) -> None:
    known = match(f"TypeError: max() got an unexpected keyword argument '{name}'")

    assert known is not None
    assert variant(known[0], program, known[1].groupdict()).name == said


@pytest.mark.parametrize(
    ("program", "name"),
    [
        pytest.param('os.environ.get("SLURM_PROCID", 0)', "send-to-itself-by-launcher", id="of Slurm"),
        pytest.param("os.environ['OMPI_COMM_WORLD_RANK']", "send-to-itself-by-launcher", id="of MPI"),
        pytest.param("os.environ['RANK']", "send-to-itself", id="its own"),
    ],
)
def test_a_rank_that_is_read_from_another_launcher_is_named(program: str, name: str) -> None:
    assert variant(signatures()["send-to-itself"], program).name == name
    assert (variant(signatures()["list-for-one-rank"], program).name == name) is (name != "send-to-itself")


def test_a_schedule_that_a_state_was_not_saved_with_is_told() -> None:
    error = "KeyError: 'LinearWarmup_LR'"
    known = match_in(error, "raised in /v/paddle/optimizer/lr.py")

    assert known is not None
    assert known[0].name == "paddle-schedule-of-another"
    assert match_in(error, "raised in /v/paddle/optimizer/optimizer.py") is None


def test_the_conditions_of_rows_are_expressions() -> None:
    for one in SIGNATURES:
        re.compile(re.sub(r"\\g<\w+>", "x", one.where))
