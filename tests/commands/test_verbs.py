"""Every command on every model that configs/model names."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import MODELS, QUICK, TEXT, command

from lmzoo.commands import compare, evaluate, export, generate, pairs, rerank, score
from lmzoo.core.configs import choices

NAMES = [name for name in choices("model") if name != "whole_sentence"]  # which has no probabilities of words
BLOCKS = ["model.states=24", "model.clusters=6", "model.dim=8"]
SMALL = MODELS | {
    "hmm": ["model.states=4", "model.iterations=2"],
    "logbilinear": ["model.embedding=8"],
    "loglinear": ["model.order=2", "model.max_iterations=5"],
    "lowrank_hmm": [*BLOCKS, "model.features=4"],
    "model_m": ["model.order=2", "model.classes=4", "model.max_iterations=5"],
    "neural_hmm": ["model.states=8", "model.dim=8"],
    "nnlm": ["model.embedding=8", "model.hidden=8"],
    "twolevel_hmm": BLOCKS,
}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The run of a model, trained when it is first asked for; some models read what others wrote."""
    folder = tmp_path_factory.mktemp("runs")

    def run(name: str) -> str:
        if not (folder / name).exists():
            options = SMALL.get(name, [])
            if name == "arpa":
                written = command(run("ngram"), str(folder / "file.arpa"), main=export.main)
                assert written.code == 0, written
                options = [f"model.path={folder / 'file.arpa'}"]
            elif name == "mixture":
                options = [f"model.runs=[{run('ngram')},{run('rnn')}]"]
            elif name in ("cache", "dynamic"):
                options = [f"model.run={run('rnn')}"]
            done = command(*TEXT, *QUICK, f"model={name}", *options, f"run_dir={folder / name}")
            assert done.code == 0, done
        return str(folder / name)

    return run


QUICKEST = ("dynamic", "hmm", "lds_rnn", "lstm", "mixture")
"""One of each family; the others are slow together."""


@pytest.mark.parametrize("name", [n if n in QUICKEST else pytest.param(n, marks=pytest.mark.slow) for n in NAMES])
def test_every_command_takes_every_model(name: str, trained: Callable[[str], str], tmp_path: Path):
    run, (text, nbest, minimal) = trained(name), (str(tmp_path / part) for part in ("text", "nbest", "pairs"))

    def done(main: Callable[[], int], *arguments: str) -> str:
        outcome = command(*arguments, main=main)
        assert outcome.code == 0, outcome
        return outcome.out

    greedy = done(generate.main, run, "--tokens", "6", "--top-k", "1", "--scores").splitlines()[0].split("\t")
    beam = done(generate.main, run, "--tokens", "6", "--beam", "1", "--scores").splitlines()[0].split("\t")
    assert greedy[1] == beam[1].removesuffix(" …")  # a sentence that is cut
    assert float(greedy[0]) == pytest.approx(float(beam[0]), abs=1e-3)
    drawn = done(generate.main, run, "--tokens", "40", "--seed", "1")
    assert drawn == done(generate.main, run, "--tokens", "40", "--seed", "1")
    assert drawn != done(generate.main, run, "--tokens", "40", "--seed", "2")

    def sums(*options: str) -> list[dict[str, float]]:
        """Of each line; null, of an impossible line, is log 0."""
        lines = map(json.loads, done(score.main, run, text, "--json", "--sums", *options).splitlines())
        return [line | {"logprob": -math.inf if line["logprob"] is None else line["logprob"]} for line in lines]

    Path(text).write_text(drawn)
    whole = evaluate.evaluate(Path(run), text, device="cpu")
    lines = sums()
    assert sum(line["tokens"] for line in lines) == whole["tokens"]
    assert sum(line["logprob"] for line in lines) == pytest.approx(whole["logprob"], rel=1e-6)
    assert whole["perplexity"] == pytest.approx(math.exp(-whole["logprob"] / whole["tokens"]), rel=1e-6)

    longest = max(drawn.splitlines(), key=lambda line: len(line.split())).split()
    good, bad = " ".join(longest), " ".join(reversed(longest))
    Path(text).write_text(f"{good}\n{bad}\n")
    of_good, of_bad = (line["logprob"] for line in sums("--context", "sentence"))
    Path(nbest).write_text(f"1 ||| {good}\n1 ||| {bad}\n")
    best = done(rerank.main, run, nbest).splitlines()[0].split(" ||| ")
    assert float(best[-1]) == pytest.approx(max(of_good, of_bad), abs=1e-3)
    Path(minimal).write_text(json.dumps({"sentence_good": good, "sentence_bad": bad}) + "\n")
    preferred = json.loads(done(pairs.main, run, minimal, "--json"))["mean"]
    assert preferred == (of_good > of_bad)

    assert run in done(compare.main, run, trained("ngram"))
    if name != "infinigram":  # whose words of probability 0 have no difference
        assert "95% interval" in done(compare.main, "--tokens", run, trained("ngram"), "--device", "cpu")
