"""Text drawn from a model: how often what is drawn, what is remembered, and the command."""

import math
import shutil
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command
from torch import Tensor

from lmzoo import generate
from lmzoo.protocol.model import WindowModel
from lmzoo.protocol.sampling import sample
from lmzoo.runs.loading import load
from lmzoo.training import session

P = torch.tensor([[0.0, 0.2, 0.8, 0.0], [0.1, 0.2, 0.3, 0.4], [0.5, 0.0, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]])


class Bigrams(WindowModel):
    """Whose next word is drawn from a row of P."""

    vocabulary_size, order = 4, 2

    def next_logprobs(self, context: Tensor) -> Tensor:
        return P[context[:, 0]].log()


class Boundary(WindowModel):
    """Says 1, but after the end of a sentence that it remembers 2; after either, and after 3, comes the end."""

    vocabulary_size, order = 4, 3

    def next_logprobs(self, context: Tensor) -> Tensor:
        before, last = context.unbind(1)
        following = torch.where(last > 0, 0, torch.where(before > 0, 2, 1))
        return torch.where(torch.arange(4) == following[:, None], 0.0, -torch.inf)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_words_are_drawn_as_often_as_the_model_and_the_temperature_have_it(temperature: float):
    drawn = sample(Bigrams(), 20_000, seed=1, context="stream", temperature=temperature)
    before = torch.cat([torch.tensor([0]), drawn[:-1]])
    counts = torch.zeros(4, 4).index_put_((before, drawn), torch.ones(()), accumulate=True)
    expected = P ** (1 / temperature)
    expected /= expected.sum(1, keepdim=True)
    times = counts.sum(1, keepdim=True)
    assert times.min() > 500
    assert ((counts / times - expected).abs() <= 4 * (expected * (1 - expected) / times).sqrt()).all()


def test_what_is_remembered_at_the_end_of_a_sentence_is_the_context_s():
    assert sample(Boundary(), 6, seed=0, context="stream").tolist() == [1, 0, 2, 0, 2, 0]
    assert sample(Boundary(), 6, seed=0, context="sentence").tolist() == [1, 0, 1, 0, 1, 0]


def test_a_prompt_is_read_first():
    assert sample(Boundary(), 2, seed=0, context="stream", prompt=torch.tensor([3])).tolist() == [0, 2]


def test_a_seed_draws_the_same_again_and_another_something_else():
    texts = [sample(Bigrams(), 100, seed, context="stream").tolist() for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]


def test_next_to_no_temperature_takes_the_likeliest_word():
    assert sample(Bigrams(), 6, seed=0, context="stream", temperature=1e-300).tolist() == [2, 0] * 3


def test_arguments_that_cannot_be():
    with pytest.raises(ValueError, match="tokens=0: must be at least 1"):
        sample(Bigrams(), 0, seed=0, context="stream")
    for temperature in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="must be positive and finite"):
            sample(Bigrams(), 1, seed=0, context="stream", temperature=temperature)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert command(*TEXT, *QUICK, *MODELS["vlhmm"], "corpus.context=sentence", f"run_dir={folder}").code == 0
    return folder


def test_the_command_prints_a_sentence_a_line(run: Path):
    model, vocabulary = load(run)
    prompt = torch.tensor([2, 3])
    options = ["--seed", "3", "--temperature", "0.5", "--prompt", f"{vocabulary.words[2]}  {vocabulary.words[3]}"]
    text = command(str(run), "--tokens", "30", *options, main=generate.main).out
    drawn = sample(model, 30, 3, context="sentence", temperature=0.5, prompt=prompt)
    words = [*prompt.tolist(), *drawn.tolist()]
    assert words.count(0) > 1
    assert [line.split() for line in text.splitlines()] == [
        line.replace("<eos>", "").split() for line in vocabulary.decode(words).splitlines()
    ]
    assert text != command(str(run), "--tokens", "30", main=generate.main).out


def test_what_a_run_shows_as_it_learns_is_drawn_in_its_context(tmp_path: Path, monkeypatch):
    contexts = []
    monkeypatch.setattr(
        session, "sample", lambda *arguments, context: contexts.append(context) or sample(*arguments, context=context)
    )
    command(*TEXT, *QUICK, *MODELS["vlhmm"], "corpus.context=sentence", f"run_dir={tmp_path / 'run'}")
    assert set(contexts) == {"sentence"}


def test_a_run_that_is_not_finished_is_called_so(run: Path, tmp_path: Path):
    unfinished = shutil.copytree(run, tmp_path / "unfinished")
    assert not command(str(unfinished), "--tokens", "1", main=generate.main).err
    (unfinished / "results.json").unlink()
    assert "training is not finished" in command(str(unfinished), "--tokens", "1", main=generate.main).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "0"], "--tokens 0: must be at least 1"),
        (["--temperature", "0"], "--temperature 0.0: must be a positive number"),
        (["--temperature", "nan"], "--temperature nan: must be a positive number"),
        (["--seed", "-1"], "--seed -1: must be at least 0"),
        (["--temperature", "inf"], "--temperature inf: must be a positive number"),
        (["--prompt", "w1 nowhere"], "--prompt: 'nowhere' is not among the model's words, "),
        (["--prompt", "<eos>"], "--prompt: '<eos>' is not among the model's words, "),
        (["--words", "3"], "unrecognized arguments: --words 3; --help shows what there is"),
    ],
)
def test_mistakes_of_the_command(run: Path, arguments: list[str], message: str):
    assert message in command(str(run), *arguments, main=generate.main).refused()


def test_a_folder_that_is_no_run(tmp_path: Path):
    assert "not a run directory" in command(str(tmp_path), main=generate.main).refused()
