"""Every model on a GPU: trained with algorithms that give the same bits, drawn from, and measured on a CPU, too.

Without a GPU `test_simulated.py` runs these tests.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, ROOT, TEXT, command, configuration, stop_at, train
from training.test_ranks import FAMILIES, FAMILY, require_equal
from training.toy_model import CONSTANT, SGD, corpus_of, trainer_options

from lmzoo import api
from lmzoo.commands import evaluate, export
from lmzoo.core.configs import defaults
from lmzoo.models.hmm.inference import blocks
from lmzoo.numerics.gpu_sync import DeferredChecks
from lmzoo.protocol.model import models
from lmzoo.training import descent
from lmzoo.training.descent import Descent

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

BLOCKS = ["model.states=24", "model.clusters=6", "model.dim=8", "corpus.context=sentence"]
OVER = ["corpus.context=stream", "model.run=base/lstm"]
CASES = {
    **MODELS,
    "arpa": ["model=arpa", "model.path=base/ngram.arpa"],
    "cache": ["model=cache", *OVER, "model.theta=0.3"],
    "dynamic": ["model=dynamic", *OVER, "model.rate=0.001", "model.epsilon=0.01"],
    "hmm": ["model=hmm", "model.states=6"],
    "hmm by gradient": ["model=hmm", "model.states=6", "model.gradient=true", "model.iterations=1"],
    "infinigram": ["model=infinigram"],
    "logbilinear": ["model=logbilinear", "model.classes=4"],
    "loglinear": ["model=loglinear", "model.max_iterations=5"],
    "lowrank_hmm": ["model=lowrank_hmm", *BLOCKS, "model.features=6"],
    "lowrank_hmm in clusters": ["model=lowrank_hmm", *BLOCKS, "model.features=12", "model.block_features=true"],
    "lstm as AWD-LSTM": ["model=lstm", "model.embedding=6", "model.hidden=8", "model.last=6", "model.tied=true",
                         "model.layers=2", "model.locked=true", "model.dropout=0.3", "model.dropout_words=0.1",
                         "model.weight_drop=0.5", "model.ar=2", "model.tar=1", "trainer.random_bptt=true",
                         "optimizer=sgd", "trainer.average=tail", "trainer.average_after=1", "trainer.epochs=2"],
    "lstm by sentences": [*MODELS["lstm"], "corpus.context=sentence"],
    "mixture": ["model=mixture", "model.runs=[base/lstm,base/ngram]"],
    "mixture by the sentence": ["model=mixture", "model.runs=[base/lstm,base/ngram]", "model.per=sentence",
                                "corpus.context=sentence"],
    "model_m": ["model=model_m", "model.classes=4", "model.max_iterations=5"],
    "neural_hmm": ["model=neural_hmm", "model.states=8", "corpus.context=sentence"],
    "nnlm": ["model=nnlm"],
    "twolevel_hmm": ["model=twolevel_hmm", *BLOCKS],
    "twolevel_hmm with a teacher": ["model=twolevel_hmm", *BLOCKS, "model.teacher=base/lstm"],
    "vlhmm": ["model=vlhmm", *BLOCKS],
    "vlhmm in a stream": ["model=vlhmm", *BLOCKS[:-1], "corpus.context=stream"],
    "whole_sentence": ["model=whole_sentence", "model.run=base/ngram", "model.samples=100", "model.noise=1",
                       "model.min_count=2", "model.clusters=[5]", "corpus.context=sentence"],
}  # fmt: skip
SMALL = [*TEXT, *QUICK[1:-1], "trainer.epochs=1", "trainer.precision=float32"]


@pytest.fixture(scope="module", autouse=True)
def base(tmp_path_factory: pytest.TempPathFactory):
    """A folder with what some models are made of, learnt on a CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("runs"))
        for name in ("lstm", "ngram"):
            assert command(*SMALL, *MODELS[name], "device=cpu", f"run_dir=base/{name}").code == 0
        assert command("base/ngram", "base/ngram.arpa", main=export.main).code == 0
        yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each place waits for the device in one step of what is trained then, the third or a later one."""
    seen: Counter[str] = Counter()
    if "simulated" in sys.modules:
        whole, steps = Descent.step, []

        def step(self: Descent, window):
            steps.append(window)
            if len(steps) != 3:
                return whole(self, window)
            with sys.modules["simulated"].waits() as places:
                result = whole(self, window)
            seen.update(places)
            return result

        monkeypatch.setattr(Descent, "step", step)
    return seen


def perplexity(run: str, device: str) -> float:
    return json.loads(command(run, "--device", device, "--json", main=evaluate.main).out)["perplexity"]


def asked(run: str, device: str) -> tuple[list[float], list[float], list[str]]:
    """log p of lines and of the sentences of a beam, and these sentences."""
    lm = api.load(run, device)
    assert {tensor.device.type for tensor in lm.model.state_dict().values() if torch.is_tensor(tensor)} <= {device}
    lines = [" ".join(lm.vocabulary.words[first : first + 3]) for first in (2, 4)]
    if lm.model.whole_sentences:
        return lm.score(lines), [], []
    assert all(lm.sample(5, seed=1, samples=2))
    sentences, logprobs = zip(*lm.beam_search(3, 6), strict=True)
    return lm.score(lines), list(logprobs), list(sentences)


def test_every_model_is_here():
    assert {options[0].removeprefix("model=") for options in CASES.values()} == set(models.entries)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (" " in name and "AWD" not in name)) for name in CASES]
)
def test_cuda_trains_a_model_that_any_device_can_use(name: str, waits: Counter[str]):
    run = name.replace(" ", "_")
    done = command(*SMALL, *CASES[name], "device=cuda", "deterministic=true", f"run_dir={run}")
    assert done.code == 0, done
    results = json.loads(Path(run, "results.json").read_text())
    assert results["device"] == "cuda:0"
    expected = results["perplexity"]["test"]  # None: infinite
    assert perplexity(run, "cpu") == (expected and pytest.approx(expected, rel=1e-4))
    *numbers, sentences = asked(run, "cuda")
    *same, likewise = asked(run, "cpu")
    assert numbers == [pytest.approx(of, rel=1e-4) for of in same]
    assert sentences == likewise
    assert waits.total() <= 1, waits


@pytest.mark.parametrize(
    ("name", "first", "then"), [("lstm", "cuda", "cuda"), ("lstm", "cuda", "cpu"), ("vlhmm", "cpu", "cuda")]
)
def test_cuda_goes_on_with_a_run(name: str, first: str, then: str, monkeypatch: pytest.MonkeyPatch):
    kind = "bfloat16" if name == "lstm" else "float32"
    line = [
        *SMALL,
        *CASES[name],
        f"trainer.precision={kind}",
        "deterministic=true",
        f"run_dir=stopped/{name}/{first}/{then}",
    ]
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        command(*line, f"device={first}")
    run = Path(line[-1].removeprefix("run_dir="))
    assert not (run / "results.json").exists()
    done = command(*line, f"device={then}")
    assert done.code == 0, done
    assert "resumed at step 3" in done.out
    if first == then:
        assert command(*line[:-1], "device=cuda", f"run_dir=whole/{name}").code == 0
        weights = [torch.load(path / "best.pt", weights_only=True)["model"] for path in (run, Path("whole", name))]
        torch.testing.assert_close(*weights, rtol=0, atol=0)


def test_cuda_takes_sums_that_underflow_in_log_space():
    random = torch.Generator().manual_seed(0)
    tiles = (60 * torch.randn(3, 4, 4, generator=random)).log_softmax(2)
    emission = (60 * torch.randn(2, 6, 4, generator=random)).log_softmax(2)
    pair = torch.randint(3, (2, 6), generator=random)
    found = []
    for device in ("cpu", "cuda"):
        inputs = [part.to(device).detach().requires_grad_() for part in (tiles, emission)]
        logprobs, belief = blocks.forward(torch.zeros(2, 4).log_softmax(1).to(device), inputs[0], pair, inputs[1])
        gradients = torch.autograd.grad(logprobs.sum() + belief.sum(), inputs)
        found.append([part.cpu() for part in (logprobs.detach(), belief.detach(), *gradients)])
    torch.testing.assert_close(*found)
    assert found[0][0].min() < -50


LINES = [3, 1, 2, 0, 1, 0, 2, 2, 3, 1, 0, 1, 3, 0]
WRONG = {
    "hmm": {"states": 6, "gradient": True},
    "neural_hmm": {"states": 8, "dim": 4, "state_dropout": 0.5},
    "lowrank_hmm": {"states": 8, "clusters": 2, "dim": 4, "features": 4},
    "vlhmm": {"states": 8, "clusters": 2, "dim": 4},
    "lstm": {"embedding": 4, "hidden": 4, "dropout": 0.5},
    "logbilinear": {"embedding": 4, "classes": 2, "dropout": 0.5},
}
"""Models, of which HMMs with such large weights have sums that underflow, and networks trust in what is made wrong."""


@pytest.mark.parametrize("name", WRONG)
def test_cuda_takes_a_step_again_where_it_was_wrong_to_trust(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        descent, "DeferredChecks", lambda _: DeferredChecks()
    )  # that padding weighs as much as other tokens
    corpus, found = corpus_of(LINES, "sentence"), []
    for cautious in (0, 1):
        torch.manual_seed(0)
        model = models.build(defaults("model", name) | WRONG[name], vocabulary_size=4)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_((100 if "hmm" in name else 1) * torch.randn(parameter.shape))
        options = trainer_options(max_tokens=24)
        trained = Descent(model.to("cuda"), corpus, options, optimizer=SGD, schedule=CONSTANT, seed=0)
        trained.cautious = cautious
        (window,) = trained.windows.epoch(0)
        found.append((trained.step(window), *(weights.detach().cpu() for weights in model.parameters())))
        assert trained.cautious == (0 if cautious else descent.CAUTIOUS)
    assert found[0][0] == found[1][0]
    torch.testing.assert_close(*(weights for _, *weights in found), rtol=0, atol=0)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one CUDA device alone")
def test_a_model_computes_on_the_second_cuda_device():
    assert perplexity("base/lstm", "cuda:1") == pytest.approx(perplexity("base/lstm", "cpu"), rel=1e-4)


@pytest.mark.skipif("simulated" not in sys.modules, reason="GPUs that are there have NCCL, which this does not ask for")
def test_two_ranks_on_cuda_train_what_one_process_trains_on_a_cpu():
    names = ["sentences", "vlhmm_sentences", "logbilinear"]
    for name in names:
        train(configuration(Path("one", name), *FAMILY, *FAMILIES[name]))
    on_devices = ["device=cuda", "trainer.precision=float32"]
    several = [configuration(Path("two", name), *FAMILY, *FAMILIES[name], *on_devices) for name in names]
    Path("configs.json").write_text(json.dumps(several))
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
            str(Path(__file__).with_name("ranks_on_devices.py")), "configs.json"]  # fmt: skip
    path = os.pathsep.join([str(Path(__file__).parent), str(ROOT)])
    done = subprocess.run(line, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in names:
        require_equal(Path("one", name), Path("two", name))
        assert json.loads(Path("two", name, "results.json").read_text())["device"] == "cuda:0"
    for rank in (0, 1):
        assert json.loads(Path(f"steps-{rank}.json").read_text()) == [[1, False, True]] * len(names)
