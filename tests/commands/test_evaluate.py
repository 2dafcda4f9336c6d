"""The evaluate command: a split or a file, measured by the best weights of a run."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import MODELS, QUICK, SMALL, TEXT, command, configuration, stop_at, train

import lmzoo
from lmzoo.commands import compare
from lmzoo.commands import score as score_command
from lmzoo.commands.evaluate import evaluate, main
from lmzoo.core.errors import Interrupted, UserError
from lmzoo.protocol.lines import scored
from lmzoo.protocol.perplexity import score
from lmzoo.runs.directory import Run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("runs") / "lstm"
    return path, train(configuration(path, *SMALL))


def test_the_best_weights_are_the_ones_reported(finished):
    path, results = finished
    assert evaluate(path, "test", device="cpu")["perplexity"] == pytest.approx(results["perplexity"]["test"], rel=1e-6)
    model, vocabulary = lmzoo.load(path)
    assert not model.training
    assert len(vocabulary) == 21


def test_a_file_is_evaluated_with_the_run_s_vocabulary(finished, tmp_path):
    path, results = finished
    _, vocabulary = lmzoo.load(path)
    corpus_text = tmp_path / "text.txt"
    split = Run(path).corpus().splits["test"]
    corpus_text.write_text(vocabulary.decode(split.tolist()).replace(" <eos>", "").replace("<eos>", ""))
    figures = evaluate(path, str(corpus_text), device="cpu")
    assert figures["tokens"] == results["tokens"]["test"]
    assert figures["perplexity"] == pytest.approx(results["perplexity"]["test"], rel=1e-6)
    corpus_text.write_text("w1 nonsense\n")
    with pytest.raises(UserError, match="'nonsense' is not in the vocabulary"):
        evaluate(path, str(corpus_text), device="cpu")


def test_words_contexts_and_splits_are_those_asked_for(tmp_path: Path):
    """Every figure again, from the model and the tokens themselves."""
    texts = {
        "train": "a b a <unk>\nb a\n" * 20,
        "valid": "a b\nb <unk> a\n",
        "test": "b b a\n",
        "text": "a x b x\nb\ny b a\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths = [f"corpus.{split}={tmp_path / split}" for split in ("train", "valid", "test")]
    path = tmp_path / "run"
    results = train(
        configuration(path, *QUICK, *MODELS["rnn"], "model.init=1", "corpus=text", *paths, "corpus.context=sentence")
    )
    model, vocabulary = lmzoo.load(path)
    tokens = vocabulary.encode(["a <unk> b <unk>", "b", "<unk> b a"])
    expected = {context: score(model, tokens, context).logprob for context in ("stream", "sentence")}
    assert expected["stream"] != pytest.approx(expected["sentence"], rel=1e-4)
    for asked, context in ((None, "sentence"), ("stream", "stream"), ("sentence", "sentence")):
        figures = evaluate(path, str(tmp_path / "text"), asked, "cpu")
        assert figures["logprob"] == pytest.approx(expected[context], rel=1e-6)
        assert (figures["context"], figures["tokens"], figures["unknown"]) == (context, 11, 3)
    told = command(str(path), str(tmp_path / "text"), main=main).out
    assert "\n3 of the tokens are unknown words, which the model reads as <unk>" in told
    lines = scored(model, vocabulary, texts["text"].splitlines(), "sentence")
    perplexity = math.exp(-sum(line.logprob_of_known for line in lines) / 8)
    assert f"; without them the perplexity is {perplexity:.2f}" in told
    for split, text in Run(path).corpus().splits.items():
        logprob = score(model, text, "sentence").logprob
        figures = evaluate(path, split, device="cpu")
        assert figures["logprob"] == pytest.approx(logprob, rel=1e-6)
        if split != "train":
            assert results["perplexity"][split] == pytest.approx(figures["perplexity"], rel=1e-6)
            assert results["tokens"][split] == figures["tokens"] == len(text)


def test_where_a_text_is_sought_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch):
    Path("text").write_text("a b\nb a\n" * 9)
    options = ["corpus=text", "corpus.train=text", "corpus.valid=text", "model=ngram", "model.discount_fallback=true"]
    assert command(*options, "run_dir=run").code == 0
    (folder / "other").mkdir()
    monkeypatch.chdir(folder / "other")
    told = "error: ../run: text: no such file; names are sought from the current folder, so go to the one where the run"
    assert command("../run", "valid", main=main).refused().startswith(told)


@pytest.mark.parametrize("combined", [False, True])
def test_what_a_run_read_of_its_text_is_what_it_is_measured_on(tmp_path: Path, combined: bool):
    run, other = tmp_path / "run", tmp_path / "other"
    part = "trainer.first_tokens=50"
    results = train(configuration(run, *SMALL, part))
    if combined:
        run, of = tmp_path / "mixture", run
        results = train(configuration(run, *TEXT, *QUICK, "model=mixture", f"model.runs=[{of},{of}]", part))
    assert results["tokens"]["valid"] <= 50
    for split in ("valid", "test"):
        figures = evaluate(run, split, device="cpu")
        assert figures["tokens"] == results["tokens"][split]
        assert figures["perplexity"] == pytest.approx(results["perplexity"][split], rel=1e-6)
        assert lmzoo.load(run).perplexity(split) == pytest.approx(results["perplexity"][split], rel=1e-6)
        told = command("--tokens", str(run), str(run), "--split", split, main=compare.main).out
        assert told.startswith(f"A  {results['perplexity'][split]:.2f}  ")
        assert "by occurrences in train of markov, first 50 tokens, A gains" in told
    assert len(Run(run).corpus().splits["train"]) <= 50
    train(configuration(other, *SMALL))
    refused = command("--tokens", str(run), str(other), main=compare.main).refused()
    assert f"{other}: reads more or less of test than {run}" in refused


@pytest.mark.parametrize("text", ["validation", "val", "tset"])
def test_a_misspelt_split_is_answered_with_the_split(finished, text: str):
    meant = {"val": "valid", "validation": "valid", "tset": "test"}[text]
    with pytest.raises(
        UserError, match=rf"neither a split \(train, valid, test\) nor a file; did you mean '{meant}'\?"
    ):
        evaluate(finished[0], text, device="cpu")


@pytest.mark.parametrize("command_main", [main, score_command.main])
@pytest.mark.parametrize("words", [2, 2000])
def test_a_text_in_place_of_its_file_is_reported_how_it_is_scored(
    finished, command_main: Callable[[], int], words: int
):
    refused = command(str(finished[0]), " ".join(["w1"] * words), main=command_main).refused()
    assert "error: 'w1 w1" in refused or "error: w1 w1" in refused
    assert "echo 'one line' | lmzoo " in refused


def test_an_unfinished_run_is_evaluated_and_called_so(tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        stop_at(patch, 7)
        with pytest.raises(Interrupted):
            train(configuration(tmp_path / "run", *SMALL))
    monkeypatch.setattr("sys.argv", ["evaluate", str(tmp_path / "run"), "valid"])
    main()
    assert (
        capsys.readouterr().err
        == f"warning: {tmp_path}/run: its training is not finished; these are the best weights so far\n"
    )


def test_an_impossible_token_makes_perplexity_infinite_and_is_counted(tmp_path, capsys, monkeypatch):
    results = train(
        configuration(tmp_path / "run", *TEXT, *QUICK, "model=ngram", "model.smoothing=mle", "model.order=4")
    )
    assert results["perplexity"]["test"] is None
    assert 0 < results["impossible_tokens"]["test"] < results["tokens"]["test"]
    assert "Infinity" not in (tmp_path / "run" / "results.json").read_text()
    assert "test perplexity inf" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["evaluate", str(tmp_path / "run"), "--json"])
    main()
    printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert printed["perplexity"] is None
    assert printed["impossible"] == results["impossible_tokens"]["test"]
    monkeypatch.setattr("sys.argv", ["score", str(tmp_path / "run"), "test", "--json", "--sums"])
    score_command.main()
    lines = [json.loads(line, parse_constant=pytest.fail) for line in capsys.readouterr().out.splitlines()]
    assert None in {line["logprob"] for line in lines}
    assert sum(line["tokens"] for line in lines) == results["tokens"]["test"]
