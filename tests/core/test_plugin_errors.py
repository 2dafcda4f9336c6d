"""Mistakes in the code of a plug-in: one line with file and line."""

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import QUICK, TEXT, Outcome, command

from lmzoo.commands import check, label, train, vectors
from lmzoo.core import errors

BROKEN = """
import torch
from lmzoo.core.options import Options, Size, configured
from lmzoo.protocol.model import LanguageModel, models

class MineOptions(Options):
    hidden: Size = 4

@models.register("mine")
class Mine(LanguageModel):
    whole_sentences = WHOLE

    @configured(MineOptions)
    def __init__(self, vocabulary_size: int, options: MineOptions):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.w = torch.nn.Parameter(torch.zeros(vocabulary_size))

    def initial_state(self, batch_size):
        return ()

    def forward(self, tokens, state):
        return self.w.log_softmax(0)[tokens], state

    def predict(self, state):
        return self.w.log_softmax(0)[None]
"""
FORWARD = "return self.w.log_softmax(0)[tokens], state"
PAIR = "forward returns {}, not a pair of log p and state; correct forward of Mine"


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (FORWARD, "return self.w.log_softmax(0)[tokens]", PAIR.format("a Tensor")),
        (FORWARD, "return None", PAIR.format("a NoneType")),
        (FORWARD, "return [0.0], state", r"forward returns shape \(\), not \(\d+, \d+\), that of the tokens"),
        (FORWARD, "return self.w[tokens], state, 1", PAIR.format("a tuple of 3")),
        (FORWARD, "return self.w[tokens], tokens", "forward returns a state that is a Tensor, not a tuple of tensors"),
        ("return ()", "return None", "the state is a NoneType, not a tuple of tensors; correct initial_state of Mine"),
        (
            "return ()",
            "return (torch.tensor(0),)",
            "the state has a part that is no tensor with a row for each text; corr",
        ),
        (
            "return ()",
            "return (None,)",
            "the state has a part that is no tensor with a row for each text; correct initia",
        ),
        (FORWARD, "return self.w.expand(*tokens.shape, -1), state", r"forward returns shape \(\d+, \d+, 2\d\), not "),
        (
            "super().__init__()",
            "pass",
            "zoo/own.py:17: AttributeError: cannot assign parameters before Module.__init__",
        ),
        ("super().__init__()\n", "self.vocabulary_size = 2; return\n", "__init__ does not call super().__init__()"),
        (
            "self.vocabulary_size = vocabulary_size",
            "pass",
            "zoo/own.py:13: AttributeError: 'Mine' object has no attribute 'vocabulary_size'; set it in __init__, or ",
        ),
        ("size: int, options", "size: int, given", "zoo/own.py:13: Mine.__init__ does not have 'options' as its last"),
        ("(self, vocabulary_size: int, ", "(self, ", "Mine() got an unexpected keyword argument 'vocabulary_size'"),
        ("torch.zeros(vocabulary_size)", "torch.zeros(options.size)", "AttributeError: 'MineOptions' object has no "),
    ],
)
def test_a_mistake_in_a_model_is_a_line(old: str, new: str, told: str, whole: bool, own: Path):
    code = BROKEN.replace("WHOLE", str(whole))
    assert old in code
    (own / "zoo/own.py").write_text(code.replace(old, new))
    refused = command("model=mine", "plugins=[zoo.own]", *TEXT, *QUICK, "run_dir=run").refused()
    assert re.search(told if "\\" in told else re.escape(told), refused), refused


WINDOW = """
import torch
from lmzoo.protocol.model import models
from lmzoo.protocol.window_model import WindowModel

@models.register("mine")
class Mine(WindowModel):
    order, takes_steps = 1, False

    def __init__(self, vocabulary_size: int):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.logprobs = torch.nn.Buffer(torch.full((vocabulary_size,), -1.0).log_softmax(0))

    def estimate(self, corpus):
        counts = corpus.splits["train"].bincount(minlength=self.vocabulary_size) + 1
        self.logprobs = (counts / counts.sum()).log()

    def next_logprobs(self, context):
        return self.logprobs.expand(len(context), -1)
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("order", "order", ""),
        ("torch.nn.Buffer", "", "Mine: loaded from its state_dict, it gives other probabilities; register all that"),
        ("self.logprobs.expand(len(context), -1)", "self.logprobs", "; correct next_logprobs of Mine"),
        (".expand(len(context), -1)", ".expand(len(context), -1)[:, :5]", ", 5), not ("),
    ],
)
def test_a_mistake_in_a_window_model_is_a_line(old: str, new: str, told: str, own: Path):
    assert old in WINDOW
    (own / "zoo/own.py").write_text(WINDOW.replace(old, new))
    done = command("model=mine", "plugins=[zoo.own]", *TEXT, QUICK[-1], "run_dir=run")
    assert done.code == 0 if old == new else told in done.refused()


DERIVED = """
from {module} import {base}
from {registries} import {registry}

@{registry}.register("mine")
class Mine({base}):
"""
LABELLED = ["task=chunk", "task.train=t.txt", "task.valid=null", "task.test=t.txt"]
KINDS = {
    "model": (train.main, TEXT, "lmzoo.models.ngram.ngram", "NGram", "lmzoo.protocol.model", "models"),
    "method": (vectors.main, TEXT, "lmzoo.words.vectors.counting", "PPMI", "lmzoo.words.vectors.method", "methods"),
    "labeller": (label.main, LABELLED, "lmzoo.labels.crf", "Crf", "lmzoo.labels.model", "labellers"),
}


def derived(own: Path, kind: str, code: str, *options: str, main: Callable[[], int] | None = None) -> Outcome:
    """What a command says of a class that is derived from one of the package and has ``code`` in its body."""
    of_kind, text, *names = KINDS[kind]
    header = DERIVED.format(**dict(zip(("module", "base", "registries", "registry"), names, strict=True)))
    (own / "zoo/own.py").write_text(header + textwrap.indent(code, "    "))
    (own / "t.txt").write_text("a X B\nb X I\n\na X B\n\n")
    return command(f"{kind}=mine", "plugins=[zoo.own]", *text, *options, main=main or of_kind)


@pytest.mark.parametrize(
    ("option", "hook"),
    [
        ("model.order=2", "estimate(self, corpus)"),
        ("method.dim=4", "start(self, corpus, seed)"),
        ("method.dim=4", "step(self, number)"),
        ("labeller.iterations=5", "start(self, sentences, seed)"),
        ("labeller.iterations=5", "label(self, sentences)"),
    ],
)
def test_an_error_in_training_names_the_line_of_the_plugin(option: str, hook: str, own: Path):
    kind = option.partition(".")[0]
    code = f"def {hook}:\n    torch = __import__('torch')\n    torch.zeros(2) @ torch.zeros(3)"
    told = "error: zoo/own.py:9: RuntimeError: inconsistent tensor size"
    refused = derived(own, kind, code, option, "run_dir=run").refused()
    assert refused.startswith(told), refused
    assert refused.endswith("; fix the code that raises this")
    assert "Traceback" in (own / "run/train.log").read_text()
    if kind == "model":
        assert derived(own, kind, code, option, main=check.main).refused() == refused


def test_a_file_that_a_plugin_does_not_find(own: Path):
    refused = derived(own, "model", "def estimate(self, corpus):\n    open('none')").refused()
    assert refused.startswith("error: zoo/own.py:8: FileNotFoundError: [Errno 2] No such file or directory: 'none'")


def test_a_sweep_names_the_line_of_the_plugin(own: Path):
    swept = derived(own, "model", "def estimate(self, corpus):\n    {}['why']", "-m", "model.order=2,3")
    assert swept.code == 1
    assert swept.err.count("failed: zoo/own.py:8: KeyError: 'why'; fix the code that raises this\n") == 2


@pytest.mark.parametrize("kind", ["method", "labeller"])
def test_a_constructor_that_does_not_call_that_of_its_base(kind: str, own: Path):
    refused = derived(own, kind, "def __init__(self):\n    self.dim = 3").refused()
    assert refused.startswith("error: zoo/own.py:7: AttributeError: 'Mine' object has no attribute "), refused
    assert refused.endswith("; set it in __init__, or call super().__init__() there"), refused


def test_an_error_of_the_package_keeps_its_traceback(own: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lmzoo.models.ngram.ngram.estimate", None)
    for main in (train.main, check.main):
        with pytest.raises(TypeError, match="'NoneType' object is not callable"):
            derived(own, "model", "pass", main=main)


def test_the_line_of_an_installed_plugin_is_named(own: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lmzoo.core.errors._LIBRARIES", (*errors._LIBRARIES, str(own)))
    code = "def estimate(self, corpus):\n    __import__('json').loads('{')"
    assert derived(own, "model", code).refused().startswith("error: zoo/own.py:8: JSONDecodeError: Expecting property")
