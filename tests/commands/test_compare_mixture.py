"""The mixture of runs that ``lmzoo compare --mixture`` tabulates, beside that of ``model=mixture``."""

from pathlib import Path

from command_line import MODELS, command

from lmzoo.commands import compare, evaluate
from lmzoo.models.combined.mixture import Mixture
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import load


def mixed(*paths: str, split: str = "test"):
    return command("--mixture", *paths, "--split", split, "--device", "cpu", main=compare.main)


def test_a_mixture_is_that_of_the_run(runs: list[str], text: list[str], folder: Path):
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
    heading, *rows, last = [line.split() for line in mixed(*three).out.splitlines()]
    assert heading == ["weight", "valid", "test"]
    assert [[row[0], row[3]] for row in rows] == expected[:-1]
    assert [*last[:2], " ".join(last[2:])] == expected[-1]
    of_first = evaluate.evaluate(Path(runs[0]), "valid", device="cpu")["perplexity"]
    assert rows[0][1] == f"{of_first:.2f}"


def test_what_cannot_be_mixed_is_refused(runs: list[str], folder: Path):
    assert "fitted to valid" in mixed(*runs, split="valid").refused()
    assert f"--mixture: {runs[0]} is named twice; leave one out" in mixed(runs[0], runs[0]).refused()
    for more in (["--plot", "a.svg"], ["--csv", "a.csv"], ["--sentence", "a"], ["--tokens", *runs]):
        told = command("--mixture", *runs, *more, main=compare.main).refused()
        assert "is of the table of runs" in told or "not allowed with" in told
