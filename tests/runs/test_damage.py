"""A run directory with damaged files: one line that names the file, no code of it is run, and nothing is changed."""

import io
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from command_line import SMALL, command, contents, edit, stop_at

from lmzoo.commands import evaluate
from lmzoo.core.checksums import CHECKSUM


class Evil:
    """Unpickling it makes a folder."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def randomise(file: Path) -> None:
    file.write_bytes(bytes(torch.randint(0, 256, (5000,), generator=torch.Generator().manual_seed(0)).tolist()))


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    weight = torch.load(file, weights_only=True)["model"]["recurrent.weight_hh_l0"]
    data[data.index(weight.numpy().tobytes()) + 100] ^= 4
    file.write_bytes(data)


def forget_the_checksum(file: Path) -> None:
    torch.save({name: part for name, part in torch.load(file, weights_only=True).items() if name != CHECKSUM}, file)


def pickle_code(file: Path) -> None:
    file.write_bytes(pickle.dumps(Evil()))


def pickle_code_in_an_archive(file: Path) -> None:
    torch.save({"model": {}, "config": {}, "progress": Evil(), "state": (), "random": {}}, file)


def save_weights_alone(file: Path) -> None:
    buffer = io.BytesIO()
    torch.save(torch.load(file, weights_only=True)["model"], buffer)
    file.write_bytes(buffer.getvalue())


def forget_a_weight(file: Path) -> None:
    edit(file, lambda saved: saved["model"].__delitem__("recurrent.weight_hh_l0"))


def add_to_corpus(option: str) -> Callable[[Path], object]:
    """A change of a run's configuration."""

    def add(run: Path) -> None:
        text = (run / "config.yaml").read_text()
        (run / "config.yaml").write_text(text.replace("corpus:\n", f"corpus:\n  {option}\n"))

    return add


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (truncate, "damaged, or no checkpoint of lmzoo"),
        (randomise, "damaged, or no checkpoint of lmzoo"),
        (lambda file: file.write_bytes(b""), "damaged, or no checkpoint of lmzoo"),
        (flip_a_bit, "changed since the run wrote it (its own checksum differs or is missing)"),
        (forget_the_checksum, "changed since the run wrote it (its own checksum differs or is missing)"),
        (pickle_code, "damaged, or no checkpoint of lmzoo"),
        (pickle_code_in_an_archive, "damaged, or no checkpoint of lmzoo"),
        (save_weights_alone, "damaged, or no checkpoint of lmzoo"),
        (lambda file: shutil.copy(file.with_name("best.pt"), file), "damaged, or no checkpoint of lmzoo"),
    ],
)
def test_a_damaged_checkpoint(spoil: Callable, reason: str, run: Path):
    spoil(run / "last.pt")
    before = contents(run)
    assert command(*SMALL, f"run_dir={run}").refused() == (
        f"error: {run}/last.pt: {reason}; delete the folder to start again, or choose another run_dir"
    )
    assert contents(run) == before
    assert not Path("executed").exists()


def test_a_checkpoint_of_another_model(run: Path):
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 7)
        assert command(*SMALL, "model.hidden=4", "model.embedding=4", "run_dir=other").code == 130
    shutil.copy("other/last.pt", run / "last.pt")
    before = contents(run)
    assert command(*SMALL, f"run_dir={run}").refused() == (
        f"error: {run}/last.pt: a checkpoint of another run (model.embedding: 4 -> 8; model.hidden: 4 -> 8); "
        "delete the folder to start again, or choose another run_dir"
    )
    assert contents(run) == before


def test_damaged_best_weights_are_not_measured(run: Path):
    assert command(*SMALL, f"run_dir={run}").code == 0
    (run / "results.json").unlink()
    flip_a_bit(run / "best.pt")
    assert "best.pt: changed since the run wrote it" in command(*SMALL, f"run_dir={run}").refused()
    assert not (run / "results.json").exists()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("config.yaml", b"model: {", "config.yaml: cannot be read ("),
        ("config.yaml", b"\xff\xfe", "config.yaml: cannot be read ("),
        ("config.yaml", b"", "config.yaml: no configuration of a run; "),
        ("provenance.json", b"[{", "provenance.json: damaged ("),
        ("provenance.json", b"[{}]", "provenance.json: changed since the run wrote it (its own"),
        ("provenance.json", b"[]", "provenance.json: changed since the run wrote it (its own"),
        ("results.json", b"{", "results.json: damaged ("),
    ],
)
def test_a_damaged_run_directory(name: str, data: bytes, message: str, run: Path):
    (run / name).write_bytes(data)
    before = contents(run)
    assert message in command(*SMALL, f"run_dir={run}").refused()
    assert contents(run) == before


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: (run / "config.yaml").unlink(), "not a run directory (it has no config.yaml)"),
        (lambda run: (run / "best.pt").unlink(), "has no best.pt yet; train it first"),
        (lambda run: flip_a_bit(run / "best.pt"), "best.pt: changed since the run wrote it"),
        (lambda run: pickle_code(run / "best.pt"), "best.pt: damaged, or no checkpoint of lmzoo; "),
        (lambda run: (run / "vocabulary.txt").write_text("a\na\n"), "vocabulary.txt: damaged (a vocabulary is a list"),
        (
            lambda run: (run / "vocabulary.txt").write_text("<eos>\na\n"),
            "vocabulary.txt: not the words that best.pt was trained with; ",
        ),
        (lambda run: forget_a_weight(run / "best.pt"), "best.pt: not this model's weights ("),
        (
            add_to_corpus("tokenizer: 2147483647"),
            "config.yaml: corpus.tokenizer=2147483647: must be one of ptb, treebank, words or",
        ),
        (
            add_to_corpus("tokenizer: [ptb]"),
            "config.yaml: corpus.tokenizer=['ptb']: must be one of ptb, treebank, words or null; ",
        ),
        (add_to_corpus("unit: null"), "config.yaml: corpus.unit=null: must be one of word, char, bpe, unigram; "),
        (add_to_corpus("lower: {a: 1}"), "config.yaml: corpus.lower={'a': 1}: must be true or false; "),
        (add_to_corpus("lower: 'no'"), "config.yaml: corpus.lower=no: must be true or false; "),
        (lambda run: None, "nonsense: neither a split (train, valid, test) nor a file"),
    ],
)
def test_a_run_that_cannot_be_evaluated(spoil: Callable, message: str, run: Path):
    spoil(run)
    assert message in command(str(run), "nonsense", main=evaluate.main).refused()
