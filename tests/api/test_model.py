"""A trained model in a notebook."""

import math
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from command_line import SMALL, command

import lmzoo
from lmzoo.commands import evaluate
from lmzoo.core.errors import UserError


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert command(*SMALL, f"run_dir={folder}").code == 0
    return folder


def test_scores_are_those_of_predict_word_by_word(run: Path):
    lm = lmzoo.load(run)
    model, vocabulary = lm
    assert (model, vocabulary) == (lm.model, lm.vocabulary)
    text = vocabulary.decode([3, 5, 4])
    state, total = model.initial_state(1), 0.0
    for token, (word, bits) in zip([3, 5, 4, 0], lm.surprisal(text), strict=True):
        with torch.no_grad():
            logprob = float(model.predict(state)[0, token])
            _, state = model(torch.tensor([[token]]), state)
        assert (word, bits) == (vocabulary.words[token], pytest.approx(-logprob / math.log(2), rel=1e-4))
        total += logprob
    assert lm.score(text) == pytest.approx(total, rel=1e-5)


def test_the_likeliest_next_words(run: Path):
    lm = lmzoo.load(run)
    words = lm.next_words(lm.vocabulary.decode([3, 5]), 4)
    with torch.no_grad():
        _, state = lm.model(torch.tensor([[3, 5]]), lm.model.initial_state(1))
        p = lm.model.predict(state)[0].exp()
    best = p.argsort(descending=True)[:4].tolist()
    assert [word for word, _ in words] == [lm.vocabulary.words[token] for token in best]
    assert [value for _, value in words] == pytest.approx(p[best].tolist(), rel=1e-5)
    assert len(lm.next_words("", 10_000)) == len(lm.vocabulary)


def test_the_words_that_are_expected_at_each_place_are_those_that_come_next(run: Path):
    lm = lmzoo.load(run)
    words = lm.vocabulary.decode([3, 5, 4]).split()
    for place, found in enumerate(expected := lm.expected(" ".join(words), 4)):
        assert [word for word, _ in found] == [word for word, _ in lm.next_words(" ".join(words[:place]), 4)]
        alone = [p for _, p in lm.next_words(" ".join(words[:place]), 4)]
        assert [p for _, p in found] == pytest.approx(alone, rel=1e-5)
    assert len(expected) == 4
    bits = dict(lm.surprisal(" ".join(words)))
    whole = dict(lm.expected(" ".join(words), len(lm.vocabulary))[1])
    assert whole[words[1]] == pytest.approx(2 ** -bits[words[1]], rel=1e-5)


def test_perplexity_is_evaluate_s(run: Path, tmp_path: Path):
    lm = lmzoo.load(run)
    assert lm.perplexity() == evaluate.evaluate(run, "test")["perplexity"]
    first, second = lm.vocabulary.decode([3, 5, 4]), lm.vocabulary.decode([6])
    (tmp_path / "text").write_text(f"{first}\n{second}\n")
    alone = math.exp(-(lm.score(first) + lm.score(second)) / 6)
    assert replace(lm, context="sentence").perplexity(tmp_path / "text") == pytest.approx(alone)
    assert lm.perplexity(tmp_path / "text", "sentence") == pytest.approx(alone)
    assert lm.perplexity(tmp_path / "text") != pytest.approx(alone)


def test_what_evaluate_warns_of_is_logged(run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "results.json").unlink()
    lmzoo.load(tmp_path / "run")
    assert caplog.messages == [f"{tmp_path / 'run'}: its training is not finished; these are the best weights so far"]
    caplog.clear()
    (tmp_path / "train").write_text("a b c\nb a c\n" * 50)
    text = ["corpus=text", f"corpus.train={tmp_path / 'train'}", "corpus.valid=10%"]
    assert command(*text, "model=ngram", "model.order=2", f"run_dir={tmp_path / 'own'}").code == 0
    lm = lmzoo.load(tmp_path / "own")
    assert not caplog.messages
    lm.perplexity(tmp_path / "train")
    assert f"{tmp_path / 'train'}: is text that {tmp_path / 'own'} was trained on" in caplog.text


def test_samples_begin_with_the_prompt(run: Path):
    lm = lmzoo.load(run)
    prompt = lm.vocabulary.decode([3, 5])
    texts = lm.sample(8, prompt=prompt, samples=3, top_k=2)
    assert len(texts) == 3
    assert all(text.startswith(prompt) for text in texts)
    assert texts == lm.sample(8, prompt=prompt, samples=3, top_k=2) != lm.sample(8, seed=1, prompt=prompt, samples=3)


def test_many_lines_are_scored_together_as_each_alone(run: Path):
    lm = lmzoo.load(run)
    lines = [lm.vocabulary.decode(tokens) for tokens in ([3, 5, 4], [], [6], [3, 5, 4, 2, 2])]
    assert lm.score(lines) == pytest.approx([lm.score(line) for line in lines])
    assert lm.score([]) == []
    with pytest.raises(UserError, match="line 1: is not one line of text"):
        lm.score(["a\nb"])


def test_what_is_loaded_says_what_it_is(run: Path):
    lm = lmzoo.load(run)
    assert lm.results is not None
    valid, test = (lm.results["perplexity"][split] for split in ("valid", "test"))
    assert repr(lm) == (
        f"<{lm.results['model']} of {len(lm.vocabulary)} words in {run}, "
        f"valid perplexity {valid:.2f}, test perplexity {test:.2f}>"
    )


def test_sentences_are_whole_and_a_beam_finds_them_with_their_log_p(run: Path):
    lm = lmzoo.load(run)
    for text in lm.sample(sentences=2, samples=3):
        assert text.split().count("<eos>") == 2
        assert text.endswith("<eos>")
    with pytest.raises(UserError, match="either tokens or sentences"):
        lm.sample(5, sentences=2)
    prompt = lm.vocabulary.decode([3, 5])
    found = lm.beam_search(4, 6, prompt=prompt)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    for text, score in found:
        bits = [bits for _, bits in lm.surprisal(text.removesuffix(" <eos>"))]
        after = bits[2:] if text.endswith("<eos>") else bits[2:-1]
        assert text.startswith(prompt)
        assert score == pytest.approx(-sum(after) * math.log(2), rel=1e-4)


def test_unknown_words_are_left_out(tmp_path: Path):
    (tmp_path / "text").write_text("a a b b\nb a c d e\n" * 9)
    files = [f"corpus.{split}={tmp_path / 'text'}" for split in ("train", "valid", "test")]
    lm = lmzoo.train(
        "corpus=text", *files, "corpus.min_count=10", "model=ngram", "device=cpu", f"run_dir={tmp_path / 'run'}"
    )
    assert any("<unk>" in text for text in [*lm.sample(samples=5), *(text for text, _ in lm.beam_search())])
    known = [*lm.sample(samples=5, unknown=False), *(text for text, _ in lm.beam_search(unknown=False))]
    assert {word for text in known for word in text.split()} == {"a", "b", "<eos>"}


def test_a_model_is_trained_as_from_the_shell(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    random = torch.get_rng_state()
    lm = lmzoo.train(*SMALL, "seed=1")
    assert torch.get_rng_state().equal(random)  # the run's seed is its own
    assert lm.run.path.parts[0] == "outputs"
    assert lm.results == lmzoo.load(lm.run.path).results
    assert lm.results is not None
    assert lm.results["seed"] == 1
    assert lm.perplexity() == pytest.approx(lm.results["perplexity"]["test"])
    with pytest.raises(UserError, match="plugins=nowhere: no such module"):
        lmzoo.load(run, plugins="nowhere")
    again = lmzoo.train(*SMALL, "seed=0", f"run_dir={run}")
    assert again.results == lmzoo.load(run).results
    with pytest.raises(UserError, match=r"model.hiden: no such option; did you mean 'model.hidden'\?"):
        lmzoo.train("model.hiden=3")
    with pytest.raises(UserError, match="a sweep has more than one model"):
        lmzoo.train("-m", *SMALL, "seed=1,2")
    for flag in ("--help", "--cfg"):
        with pytest.raises(UserError, match=f"{flag}: works only for lmzoo train in a shell"):
            lmzoo.train(flag, "job")
    with pytest.raises(UserError, match="model=ngram,hmm: several values make a sweep, which lmzoo train -m does"):
        lmzoo.train("model=ngram,hmm")


def test_mistakes(run: Path):
    lm = lmzoo.load(run)
    for wrong in ({"tokens": "5"}, {"tokens": 2.5}, {"samples": "x"}, {"seed": 1.5}, {"top_k": 1.5}, {"top_k": True}):
        with pytest.raises(UserError, match=r"[=].*: must be an integer"):
            lm.sample(**wrong)
    assert len(lm.next_words("", np.int64(2))) == len(lm.sample(tokens=np.int64(1), samples=2)) == 2  # pyright: ignore[reportArgumentType]
    for width in ("x", 2.5):
        with pytest.raises(UserError, match=r"width=.*: must be an integer"):
            lm.beam_search(width)
    for text in (None, 3, b"the", {"the": "value"}, pandas.DataFrame({"the": ["value"]})):
        with pytest.raises(UserError, match="is neither a text nor a list of texts"):
            lm.score(text)
    with pytest.raises(UserError, match="context=line: must be one of stream, sentence"):
        lm.perplexity("test", "line")
    with pytest.raises(UserError, match=r"topk: no such option of sample; did you mean 'top_k'\?"):
        lm.sample(topk=10)
    with pytest.raises(UserError, match=r"sentence: no such option of sample; did you mean 'sentences'\?"):
        lm.sample(sentence=1)
    with pytest.raises(UserError, match="guide=outputs/hmm: is no loaded model; give lmzoo"):
        lm.sample(length=3, guide="outputs/hmm")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="temperature='hot': must be a number"):
        lm.sample(temperature="hot")
    with pytest.raises(UserError, match="must be positive and finite; top_k=1 chooses the most likely word"):
        lm.sample(temperature=0)
    with pytest.raises(UserError, match="is not in the vocabulary"):
        lm.score("nowhere")
    for wrong in ("a\nb", ["a", "b"], 3):
        for asked in (lambda text: lm.surprisal([text]), lm.next_words, lambda text: lm.score([text])):
            with pytest.raises(UserError, match="line 1: is not one line of text; give each line by itself"):
                asked(wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="number=-1: must be at least 0"):
        lm.next_words("", -1)
    with pytest.raises(UserError, match="is no option; give each as a string"):
        lmzoo.train(["model=ngram"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        lmzoo.lod  # noqa: B018


def test_a_run_is_trained_in_another_thread_than_the_main_one(folder: Path):
    found = []
    thread = threading.Thread(target=lambda: found.append(lmzoo.train(*SMALL, "run_dir=run")))
    thread.start()
    thread.join()
    assert found[0].perplexity() == evaluate.evaluate(Path("run"), "test")["perplexity"]


def test_quiet_training_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture, caplog: pytest.LogCaptureFixture):
    lm = lmzoo.train(*SMALL, "seed=5", f"run_dir={tmp_path / 'run'}", quiet=True)
    assert capsys.readouterr() == ("", "")
    assert lm.results is not None
    assert caplog.messages == lm.results["warnings"]
    with pytest.raises(UserError, match="no such option"):
        lmzoo.train("model.hiden=3", quiet=True)


def test_a_frame_of_runs_is_the_table_of_compare(run: Path, tmp_path: Path):
    pytest.importorskip("pandas", reason="a frame is of pandas")
    lm = lmzoo.load(run)
    other = lmzoo.train(*SMALL, "model.hidden=4", "model.embedding=4", f"run_dir={tmp_path / 'other'}", quiet=True)
    frame = lmzoo.compare([run, other])
    assert sorted(frame["run"]) == sorted(map(str, (run, tmp_path / "other")))
    for row in frame.to_dict("records"):
        results = (lm if row["run"] == str(run) else other).results
        assert results is not None
        assert (row["valid"], row["test"]) == (results["perplexity"]["valid"], results["perplexity"]["test"])
        assert row["model.hidden"] == (8 if row["run"] == str(run) else 4)
        assert (row["model.name"], row["corpus"], row["seeds"]) == ("lstm", "markov", 1)
    assert list(frame["valid"]) == sorted(frame["valid"])
    assert "seed" not in frame.columns
    for one in (lm, run, str(run)):
        assert list(lmzoo.compare(one)["run"]) == [str(run)]
    with pytest.raises(UserError, match="nowhere: no runs found"):
        lmzoo.compare("nowhere")
    with pytest.raises(UserError, match="there is no run to compare"):
        lmzoo.compare([])
    with pytest.raises(UserError, match="validation: neither a split"):
        lmzoo.load(run).perplexity("validation")
    with pytest.raises(UserError, match="neither a split"):
        lmzoo.load(run).perplexity("a text of many words " * 100)


@pytest.mark.usefixtures("folder")
def test_it_says_which_run_a_beginning_stands_for(run: Path, caplog: pytest.LogCaptureFixture):
    shutil.copytree(run, "outputs/small")
    lmzoo.load("outputs/sma")
    assert "outputs/sma is outputs/small" in caplog.text
