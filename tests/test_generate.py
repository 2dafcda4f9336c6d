"""The generate command: sentences of a trained model."""

import shutil
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command

from lmzoo import generate
from lmzoo.protocol.sampling import sample
from lmzoo.runs.loading import load


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
