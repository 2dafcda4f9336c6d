"""Text drawn from a model: how often what is drawn, what is remembered, and the command."""

import math
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command
from torch import Tensor

from lmzoo import generate
from lmzoo.generate import sample
from lmzoo.models.base import WindowModel

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
    drawn = sample(Bigrams(), 20_000, seed=1, temperature=temperature)
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


def test_a_beginning_is_read_first():
    assert sample(Boundary(), 2, seed=0, beginning=torch.tensor([3])).tolist() == [0, 2]


def test_a_seed_draws_the_same_again_and_another_something_else():
    texts = [sample(Bigrams(), 100, seed).tolist() for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]


def test_arguments_that_cannot_be():
    with pytest.raises(ValueError, match="tokens=0: must be at least 1"):
        sample(Bigrams(), 0, seed=0)
    for temperature in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="must be positive"):
            sample(Bigrams(), 1, seed=0, temperature=temperature)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert command(*TEXT, *QUICK, *MODELS["vlhmm"], "corpus.context=sentence", f"run_dir={folder}").code == 0
    return folder


def test_the_command_prints_a_sentence_a_line(run: Path):
    words = (run / "vocabulary.txt").read_text().split()
    text = command(str(run), "--tokens", "30", "--beginning", f"{words[2]}  {words[3]}", main=generate.main).out
    assert text.startswith(f"{words[2]} {words[3]} ")
    assert len(text.split()) == 32
    assert set(text.split()) <= set(words)
    assert all(line.endswith(" <eos>") or line == "<eos>" for line in text.splitlines()[:-1])
    assert text == command(str(run), "--tokens=30", "--beginning", f"{words[2]} {words[3]}", main=generate.main).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "0"], "--tokens 0: must be at least 1"),
        (["--temperature", "0"], "--temperature 0.0: must be a positive number"),
        (["--temperature", "nan"], "--temperature nan: must be a positive number"),
        (["--seed", "-1"], "--seed -1: must be at least 0"),
        (["--beginning", "nowhere"], "--beginning, line 1: 'nowhere' is not in the vocabulary, which has no <unk>"),
        (["--words", "3"], "unrecognized arguments: --words 3; --help shows what there is"),
    ],
)
def test_mistakes_of_the_command(run: Path, arguments: list[str], message: str):
    assert message in command(str(run), *arguments, main=generate.main).refused()


def test_a_folder_that_is_no_run(tmp_path: Path):
    assert "not a run directory" in command(str(tmp_path), main=generate.main).refused()
