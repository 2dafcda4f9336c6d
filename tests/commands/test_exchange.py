"""Files of log p that programs exchange: written by ``lmzoo score --export``, read by ``lmzoo compare --tokens``."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from command_line import MODELS, QUICK, command

from lmzoo.commands import compare, evaluate, generate, score
from lmzoo.models.combined.mixture import Mixture
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import load


def against(run: str, file: str, *more: str):
    return command("--tokens", run, file, "--device", "cpu", *more, main=compare.main)


@pytest.fixture
def written(runs: list[str], folder: Path) -> dict[str, np.ndarray]:
    """What ``b.npz`` has, the log p of the second run."""
    assert command(runs[1], "--export", "b.npz", "--device", "cpu", main=score.main).code == 0
    with np.load("b.npz", allow_pickle=False) as file:
        return dict(file)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_file_is_compared_as_its_run_is(runs: list[str], written: dict[str, np.ndarray], split: str):
    by_run, by_file = (against(runs[0], b, "--split", split).out.splitlines() for b in (runs[1], "b.npz"))
    assert by_run[0] == by_file[0]
    assert by_run[1].split(" (context")[0].replace(runs[1], "b.npz") == by_file[1]
    assert by_run[2:] == by_file[2:]
    assert len(by_run) > 20
    turned = command("--tokens", "b.npz", runs[0], "--split", split, "--device", "cpu", main=compare.main).out
    assert turned.splitlines()[1] == by_run[0].replace("A ", "B ", 1)


def test_another_program_can_write_one_from_the_words(runs: list[str], written: dict[str, np.ndarray]):
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    program = page.split("Another program writes it so:")[1].split("```python\n")[1].split("```")[0]
    corpus = Run(Path(runs[1])).corpus()
    tokens = [corpus.vocabulary.words[token] for token in corpus.splits["test"].tolist()]
    Path("test.txt").write_text(
        " ".join(tokens).replace(" <eos> ", "\n").replace(" <eos>", "\n").replace("<unk>", "xylophone")
    )
    Path("RUN").symlink_to(runs[1])
    exec(program, {"Path": Path, "hashlib": hashlib, "numpy": np, "logprobs": written["test"]})
    assert against(runs[0], "other.npz").out == against(runs[0], "b.npz").out.replace("b.npz", "other.npz")
    for split in ("valid", "test"):
        words = [corpus.vocabulary.words[token] for token in corpus.splits[split].tolist()]
        assert str(written[f"{split}_sha256"]) == hashlib.sha256(" ".join(words).encode()).hexdigest()
        assert written[split].shape == (len(words),)
    uniform = np.full(len(written["test"]), -np.log(50))
    np.savez("uniform.npz", test=uniform, test_sha256=written["test_sha256"].astype("S64"))
    assert against(runs[0], "uniform.npz").out.splitlines()[1] == "B  50.00  uniform.npz"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"test_sha256": np.array("0" * 64)}, "is of another text of test"),
        ({"test": np.full(3, -1.0)}, "has log p of 3 tokens of test, where the run reads "),
        ({"test": np.full((2, 3), -1.0)}, "test is 2 × 3 of float64"),
        ({"test": np.array(-1.0)}, "test is one of float64"),
        ({"test": np.array([None])}, "damaged, or not a file of numpy's savez"),
        ({"test": np.array(["-1"])}, "test is 1 of <U2"),
    ],
)
def test_a_file_of_another_text_or_form_is_refused(
    runs: list[str], written: dict[str, np.ndarray], change: dict[str, np.ndarray], told: str
):
    np.savez("bad.npz", **{**written, **change})  # pyright: ignore[reportArgumentType]
    assert f"error: bad.npz: {told}" in against(runs[0], "bad.npz").refused()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.nan, "test: the model's log-probabilities are not numbers"),
        (0.5, "test: the model gives a word the probability 1.649"),
        (-np.inf, "1 tokens of test have probability 0"),
    ],
)
def test_numbers_that_are_no_log_p_are_refused(
    runs: list[str], written: dict[str, np.ndarray], value: float, told: str
):
    written["test"][7] = value
    np.savez("bad.npz", **written)  # pyright: ignore[reportArgumentType]
    assert f"error: bad.npz: {told}" in against(runs[0], "bad.npz").refused()


def test_a_damaged_file_is_refused(runs: list[str], written: dict[str, np.ndarray]):
    whole = Path("b.npz").read_bytes()
    middle = len(whole) // 2
    np.save("row.npy", written["test"])
    wrong = [b"", b"text\n", whole[:middle], whole[:middle] + bytes(64) + whole[middle + 64 :]]
    for data in (*wrong, Path("row.npy").read_bytes()):
        Path("bad.npz").write_bytes(data)
        told = [against(runs[0], "bad.npz", "--split", split) for split in ("valid", "test")]
        refused = [outcome.refused() for outcome in told if outcome.code]
        assert refused
        assert all("error: bad.npz: damaged, or not a file of numpy's savez" in line for line in refused)
    np.savez("bad.npz", valid=written["valid"], valid_sha256=written["valid_sha256"])
    assert "bad.npz: has no arrays test and test_sha256" in against(runs[0], "bad.npz").refused()


def test_what_has_no_text_or_no_log_p_of_words_is_refused(
    runs: list[str], text: list[str], written: dict[str, np.ndarray]
):
    assert "b.npz: is a file of log-probabilities, as are all others" in against("b.npz", "b.npz").refused()
    for more in (["test"], ["--sums"], ["--bits"], ["--table", "t.csv"], ["--json"], ["--tokenize", "ptb"]):
        told = command(runs[0], *more, "--export", "c.npz", main=score.main).refused()
        assert "--export: has a fixed format" in told
    told = command(runs[0], "--export", "c.csv", main=score.main).refused()
    assert "--export c.csv: does not end in .npz; name such a file" in told
    assert command(*text, *MODELS["rnn"], *QUICK, "trainer.first_tokens=100", "run_dir=less").code == 0
    assert "tokens of test, where the run reads" in against("less", "b.npz").refused()


def mixed(*paths: str, split: str = "test"):
    return command("--mixture", *paths, "--split", split, "--device", "cpu", main=compare.main)


def test_a_mixture_with_files_is_that_of_the_runs(runs: list[str], text: list[str], written: dict[str, np.ndarray]):
    assert command(*text, *MODELS["ngram"], "model.order=1", "run_dir=third", "device=cpu").code == 0
    three = [*runs, "third"]
    assert command(*text, "model=mixture", f"model.runs=[{','.join(three)}]", "run_dir=all", "device=cpu").code == 0
    model, _ = load(Path("all"), "cpu")
    results = Run(Path("all")).results()
    assert isinstance(model, Mixture)
    assert results is not None
    perplexity = {split: f"{value:.2f}" for split, value in results["perplexity"].items()}
    expected = [
        *([f"{weight:.4f}", run] for weight, run in zip(model.weights.tolist(), three, strict=True)),
        [perplexity["valid"], perplexity["test"], "their mixture, weights by EM on valid"],
    ]
    assert len({weight for weight, *_ in expected}) == 4
    for given in (three, [runs[0], "b.npz", "third"]):
        heading, *rows, last = [line.split() for line in mixed(*given).out.splitlines()]
        assert heading == ["weight", "valid", "test"]
        assert [[row[0], row[3].replace("b.npz", runs[1])] for row in rows] == expected[:-1]
        assert [*last[:2], " ".join(last[2:])] == expected[-1]
        of_first = evaluate.evaluate(Path(runs[0]), "valid", device="cpu")["perplexity"]
        assert rows[0][1] == f"{of_first:.2f}"


def test_a_mixture_may_have_tokens_that_one_part_excludes(runs: list[str], written: dict[str, np.ndarray]):
    zeros = {split: np.full(len(written[split]), -np.inf) for split in ("valid", "test")}
    for values in zeros.values():
        values[0] = -1.0
    np.savez("zeros.npz", **{**written, **zeros})
    alone, both = (mixed(*given).out.splitlines() for given in ([runs[0]], [runs[0], "zeros.npz"]))
    assert float(both[-1].split()[0]) == pytest.approx(float(alone[-1].split()[0]), rel=1e-3)
    np.savez("a.npz", **{**written, **zeros})
    one_run = mixed("zeros.npz", "a.npz")
    assert "zeros.npz: is a file of log-probabilities, as are all others" in one_run.refused()


def test_what_cannot_be_mixed_is_refused(runs: list[str], text: list[str], written: dict[str, np.ndarray]):
    assert "fitted to valid" in mixed(runs[0], "b.npz", split="valid").refused()
    assert "--mixture: b.npz is named twice; leave one out" in mixed(runs[0], "b.npz", "./b.npz").refused()
    np.savez("bad.npz", test=written["test"], test_sha256=written["test_sha256"])
    assert "bad.npz: has no arrays valid and valid_sha256" in mixed(runs[0], "bad.npz").refused()
    of_files = "b.npz: not a run directory (a file of log p is for lmzoo compare --tokens and --mixture)"
    assert f"model.runs: {of_files}" in command(*text, "model=mixture", f"model.runs=[{runs[0]},b.npz]").refused()
    assert of_files in command("b.npz", main=generate.main).refused()
    for more in (["--plot", "a.svg"], ["--csv", "a.csv"], ["--sentence", "a"], ["--tokens", *runs]):
        told = command("--mixture", *runs, *more, main=compare.main).refused()
        assert "is of the table of runs" in told or "not allowed with" in told
