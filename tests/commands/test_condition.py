"""The commands on lines with labels: ``label TAB text``."""

import json
import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Outcome, command, stop_at

from lmzoo.api import Loaded, load
from lmzoo.commands import compare, embed, evaluate, generate, pairs, score
from lmzoo.commands import label as label_command
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError, one_line
from lmzoo.corpus import Vocabulary, load_corpus
from lmzoo.corpus.conditions import label_number
from lmzoo.runs.kinds import summary
from lmzoo.runs.loading import build_model

WORDS = {"sport": "ball goal", "the economy": "bank price"}
"""What the lines of each label are made of, every word alike."""

QUICK = ["model=nnlm", "model.order=2", "model.embedding=4", "model.hidden=4", "model.dropout=0", "optimizer.lr=0.05",
         "trainer.epochs=3", "trainer.max_tokens=40", "device=cpu"]  # fmt: skip
CONDITION = ["corpus=text", "corpus.context=sentence", "corpus.condition=true"]


def files(folder: Path, *splits: str) -> list[str]:
    return [f"corpus.{split}={folder / split}" for split in splits or ("train", "valid", "test")]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400, 100 and 100 lines of three words, three quarters of them of sport; ``plain`` has them without labels."""
    folder, draw = tmp_path_factory.mktemp("texts"), random.Random(0)
    (folder / "plain").mkdir()
    for split, lines in (("train", 400), ("valid", 100), ("test", 100)):
        labels = ["the economy", *draw.choices(list(WORDS), [3, 1], k=lines - 1)]
        found = [" ".join(draw.choices(WORDS[label].split(), k=3)) for label in labels]
        text = "".join(f" {label}\t{line}\n" for label, line in zip(labels, found, strict=True))
        (folder / split).write_text(text)
        (folder / "plain" / split).write_text("".join(f"{line}\n" for line in found))
    return folder


@pytest.fixture(scope="module")
def given(texts: Path) -> str:
    """A run that knows the labels."""
    return trained(*CONDITION, *files(texts), f"run_dir={texts / 'given'}")


def test_the_log_counts_labels_and_doubts_a_header(texts: Path, tmp_path: Path):
    lines = (texts / "train").read_text()
    (tmp_path / "train").write_text(f"label\ttext\n{lines}")
    split = files(texts, "valid", "test")
    outcome = command(*CONDITION, *files(tmp_path, "train"), *split, f"run_dir={tmp_path / 'run'}", *QUICK)
    counts = [lines.count(f" {label}\t") for label in WORDS]
    sizes = f"labels of train: sport {counts[0]}, the economy {counts[1]}, label 1"
    log = (tmp_path / "run/train.log").read_text()
    assert sizes in log
    assert "warning: train has the label 'label' only in its first line; is that line a header?" in log
    assert outcome.code == 0
    options = ["task=classify", f"task.train={tmp_path / 'train'}", f"task.test={texts / 'test'}", "labeller=nbsvm"]
    labelled = command(*options, f"run_dir={tmp_path / 'labels'}", main=label_command.main)
    assert labelled.code == 0
    log = (tmp_path / "labels/train.log").read_text()
    assert sizes in log
    assert "only in its first line; is that line a header?" in log


@pytest.fixture(scope="module")
def unaware(texts: Path) -> str:
    """A run of the same lines that does not."""
    return trained("corpus=text", "corpus.context=sentence", *files(texts / "plain"), f"run_dir={texts / 'unaware'}")


def trained(*options: str) -> str:
    outcome = command(*options, *QUICK)
    assert outcome.code == 0, outcome
    return options[-1].removeprefix("run_dir=")


def figures(run: str) -> dict[str, Any]:
    """Its results."""
    found = load(run).results
    assert found is not None
    return found


def done(main: Callable[[], int], *arguments: str) -> Outcome:
    outcome = command(*arguments, main=main)
    assert outcome.code == 0, outcome
    return outcome


def test_labels_make_perplexity_lower(given: str):
    found, without = figures(given)["perplexity"]["test"], figures(given)["perplexity_without_condition"]["test"]
    end = -2 * math.log(2 / 3) - math.log(1 / 3)  # a bigram model knows no more than that one word of three is the last
    best = math.exp((3 * math.log(2) + end) / 4)
    label = -sum(p * math.log(p) for p in (0.75, 0.25)) / 4  # nats a token that the label is worth
    assert 0.97 * best < found < 1.05 * best
    assert without == pytest.approx(found * math.exp(label), rel=0.05)


@pytest.mark.slow
def test_a_model_without_the_labels_predicts_worse(given: str, unaware: str):
    assert figures(unaware)["perplexity"]["test"] > 1.1 * figures(given)["perplexity"]["test"]


def test_the_commands_tell_perplexity_with_labels_and_without(given: str, texts: Path):
    results = figures(given)
    found, without = results["perplexity"]["test"], results["perplexity_without_condition"]["test"]
    told = done(evaluate.main, given).out
    assert f"perplexity {found:.2f} over 400 tokens" in told
    assert f"without the labels of the lines: perplexity {without:.2f}" in told
    measured = json.loads(done(evaluate.main, given, str(texts / "test"), "--json").out)
    assert measured["perplexity"] == pytest.approx(found, rel=1e-6)
    assert measured["perplexity_without_condition"] == pytest.approx(without, rel=1e-6)
    again = summary(results)
    valid = results["perplexity_without_condition"]["valid"]
    assert f"without the labels of the lines: valid perplexity {valid:.2f}, test perplexity {without:.2f}" in again
    lm = load(given)
    assert lm.perplexity() == lm.perplexity(texts / "test") == pytest.approx(found, rel=1e-6)
    sums = [
        float(line.split("\t")[0])
        for line in done(score.main, given, str(texts / "test"), "--sums").out.splitlines()[1:]
    ]
    assert math.exp(-sum(sums) / 400) == pytest.approx(found, rel=1e-3)
    assert "+0.00, 95% interval +0.00 to +0.00" in done(compare.main, "--tokens", given, given).out
    assert f"{found:.2f}" in done(compare.main, given).out


def test_text_of_a_label_has_its_words(given: str):
    for label, words in WORDS.items():
        text = done(
            generate.main, given, "--condition", label, "--samples", "9", "--tokens", "12", "--top-p", "0.9"
        ).out
        assert set(text.split()) == set(words.split())
        assert set(load(given).sample(12, condition=label, top_p=0.9)[0].split()) <= {*words.split(), "<eos>"}
    found = done(generate.main, given, "--condition", "the economy", "--beam", "4").out.split()
    assert found
    assert set(found) <= set(WORDS["the economy"].split())
    lines = done(generate.main, given, "--samples", "40", "--tokens", "4", "--top-p", "0.9").out.split("\n\n")
    parts = [line.split("\n")[0].split("\t") for line in lines]
    assert all(set(text.split()) <= set(WORDS[label].split()) for label, text in parts)
    assert 20 <= sum(label == "sport" for label, _ in parts) < 40


def test_in_python_a_line_has_a_label_or_all_of_them(given: str):
    lm = load(given)
    p = dict(zip(lm.vocabulary.conditions, lm.model.condition_shares.tolist(), strict=True))  # pyright: ignore
    assert list(p) == ["sport", "the economy"]  # the most frequent first
    assert p["sport"] == pytest.approx(0.75, abs=0.06)
    for text in ("ball goal", "price"):
        total = sum(p[label] * math.exp(lm.score(text, label)) for label in p)
        assert lm.score(text) == pytest.approx(math.log(total), abs=1e-5)
        assert -math.log(2) * sum(bits for _, bits in lm.surprisal(text)) == pytest.approx(math.log(total), abs=1e-5)
        begun, after = (sum(dict(lm.next_words(part, 9))[word] for word in ("ball",)) for part in ("", text))
        assert begun == pytest.approx(math.exp(_begun(lm, "ball")), rel=1e-4)
        assert after == pytest.approx(math.exp(_begun(lm, f"{text} ball") - _begun(lm, text)), rel=1e-4)
    assert dict(lm.next_words("", 9, "the economy"))["ball"] < 0.05 < dict(lm.next_words("", 9))["ball"]


def _begun(lm: Loaded, text: str) -> float:
    """log p of the words of a line without its `<eos>`."""
    return -math.log(2) * sum(bits for _, bits in lm.surprisal(text)[:-1])


def test_lines_without_labels_are_scored_whatever_the_label(given: str, tmp_path: Path):
    pair = {"sentence_good": "ball goal", "sentence_bad": "ball price", "UID": "one topic"}
    (tmp_path / "pairs").write_text(json.dumps(pair))
    assert done(pairs.main, given, str(tmp_path / "pairs")).out.splitlines()[1] == "100.0\t1\t0\t0\tone topic"
    labelled, problem = "the economy\tball goal", "begins with the label 'the economy' and a tab; leave both out"
    (tmp_path / "pairs").write_text(json.dumps(pair | {"sentence_bad": labelled}))
    assert problem in command(given, str(tmp_path / "pairs"), main=pairs.main).refused()
    assert f"--sentence: {problem}" in command(given, "--sentence", labelled, main=compare.main).refused()
    assert f"--prompt: {problem}" in command(given, "--prompt", labelled, main=generate.main).refused()
    for ask in (load(given).surprisal, load(given).next_words, load(given).expected):
        with pytest.raises(UserError, match=problem):
            ask(labelled)
    assert load(given).score("bank\tball goal") == load(given).score("bank ball goal")  # no label, but a word


@pytest.mark.slow
def test_a_stopped_run_goes_on_with_the_same_bits(given: str, texts: Path, monkeypatch: pytest.MonkeyPatch):
    run = [*CONDITION, *files(texts), *QUICK, f"run_dir={texts / 'stopped'}"]
    with monkeypatch.context() as patch:
        stop_at(patch, 60)
        assert command(*run).code not in (0, 2)
    assert (texts / "stopped" / "last.pt").exists()
    assert command(*run).code == 0
    whole, stopped = (torch.load(Path(each) / "best.pt")["model"] for each in (given, texts / "stopped"))
    assert whole.keys() == stopped.keys() >= {"condition_vectors", "condition_shares"}
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)


@pytest.mark.slow
def test_labels_go_on_with_the_run(given: str, texts: Path, tmp_path: Path):
    """Its numbers are those of the run, in which other labels are more frequent; a changed list is noticed."""
    (tmp_path / "train").write_text("the economy\tbank\n" * 9 + "sport\tball\n")
    shutil.copy(tmp_path / "train", tmp_path / "valid")
    on = [*CONDITION, *files(tmp_path, "train", "valid"), *QUICK, f"corpus.vocabulary={given}", f"trainer.from={given}"]
    assert command(*on, f"run_dir={tmp_path / 'on'}").code == 0
    assert (tmp_path / "on" / "conditions.txt").read_text() == "sport\nthe economy\n"
    assert math.isfinite(load(str(tmp_path / "on")).perplexity("valid"))
    run = shutil.copytree(given, tmp_path / "run")
    (run / "conditions.txt").write_text("the economy\nsport\n")
    assert "changed since the run wrote it" in command(str(run), main=evaluate.main).refused()
    (run / "conditions.txt").unlink()
    assert "conditions.txt: no such file" in command(str(run), main=evaluate.main).refused()


@pytest.mark.parametrize(
    ("split", "text", "problem"),
    [
        ("train", "sport\tball\nball goal\n", "train, line 2: has no tab; a line is a label, a tab, and a text"),
        ("valid", "sport\tball\n \tgoal\n", "valid, line 2: has no label before its tab; a line is a label, a tab,"),
        ("valid", "sport\tball\n\n", "valid, line 2: has no tab"),
        (
            "test",
            "sport\tball\narts\tgoal\n",
            "test, line 2: no line of train has the label 'arts'; choose from: sport",
        ),
    ],
)
def test_lines_need_labels_of_train(split: str, text: str, problem: str, texts: Path, tmp_path: Path):
    for name in ("train", "valid", "test"):
        shutil.copy(texts / name, tmp_path)
    (tmp_path / split).write_text(text)
    with pytest.raises(UserError) as error:
        load_corpus(options(tmp_path))
    assert problem in one_line(error.value)


def options(folder: Path) -> dict[str, Any]:
    """Of a corpus with labels."""
    named = {split: str(folder / split) for split in ("train", "valid", "test")}
    return defaults("corpus", "text") | named | {"name": "text", "condition": True, "context": "sentence"}


def test_labels_are_numbered_by_their_frequency_in_train(texts: Path, tmp_path: Path):
    (tmp_path / "valid").write_text("the economy\tbank\nthe economy\tprice\n sport \tball goal\n")
    parts = {"train": [texts / "test", texts / "valid"], "valid": [tmp_path / "valid"]}
    corpus = load_corpus(options(texts) | {split: list(map(str, files)) for split, files in parts.items()})
    assert corpus.vocabulary.conditions == ["sport", "the economy"]
    for split, named in parts.items():
        lines = "".join(file.read_text() for file in named).splitlines()
        labels = [corpus.vocabulary.conditions[number] for number in corpus.conditions[split].tolist()]
        assert labels == [line.partition("\t")[0].strip() for line in lines]
        words = corpus.vocabulary.decode(corpus.splits[split].tolist()).replace("<eos>", "")
        assert words.split() == " ".join(line.partition("\t")[2] for line in lines).split()


def test_a_label_is_chosen_where_lines_have_labels():
    assert label_number("b", Vocabulary(["<eos>"], conditions=["a", "b"])) == 1
    assert label_number(None, Vocabulary(["<eos>"])) is None
    with pytest.raises(UserError, match="condition 'b': the run's lines have no labels; leave it out"):
        label_number("b", Vocabulary(["<eos>"]))


def test_models_without_conditions_are_refused(texts: Path):
    with pytest.raises(UserError, match=r"each line has a label of its own; set corpus\.context=sentence"):
        load_corpus(options(texts) | {"context": "stream"})
    words = load_corpus(options(texts)).vocabulary
    able = "choose one of gru, lds_rnn, logbilinear, lstm, nnlm, rnn"
    with pytest.raises(UserError, match=f"model=ngram: does not support corpus.condition=true; {able}"):
        build_model(defaults("model", "ngram"), words)


def test_conditions_that_a_run_does_not_have_are_refused(given: str, texts: Path):
    def refused(main: Callable[[], int], *arguments: str) -> str:
        return command(given, *arguments, main=main).refused()

    unknown = "condition: no line of train has the label 'arts'; choose from: sport, the economy"
    assert unknown in refused(generate.main, "--condition", "arts")
    assert "give the label as condition" in refused(generate.main, "--beam", "2")
    assert "leave out the context stream" in refused(evaluate.main, "--context", "stream")
    unlabelled = str(texts / "plain" / "test")
    for main in (evaluate.main, score.main):
        assert f"{unlabelled}, line 1: has no tab" in refused(main, unlabelled)


def test_a_token_has_no_vector_where_lines_have_labels(texts: Path, tmp_path: Path):
    network = ["model=rnn", "model.embedding=4", "model.hidden=4", "trainer=debug", "device=cpu"]
    assert command(*CONDITION, *files(texts), *network, f"run_dir={tmp_path / 'run'}").code == 0
    text, out = str(texts / "plain" / "test"), tmp_path / "out.npy"
    told = command(str(tmp_path / "run"), text, str(out), main=embed.main).refused()
    assert f"{tmp_path / 'run'}: has labels of its lines" in told  # not the vectors of the first label's lines
    assert not out.exists()


@pytest.mark.slow
def test_a_run_without_labels_has_no_condition(given: str, unaware: str, texts: Path, tmp_path: Path):
    told = command(unaware, "--condition", "sport", main=generate.main).refused()
    assert "condition 'sport': the run's lines have no labels; leave it out" in told
    words = f"corpus.vocabulary={Path(given) / 'vocabulary.txt'}"
    plain = ["corpus=text", "corpus.context=sentence", *files(texts / "plain"), words, *QUICK]
    told = command(*plain, f"trainer.from={given}", f"run_dir={tmp_path / 'run'}").refused()
    assert f"trainer.from: {given} was not trained on the labels of corpus train" in told


def test_weights_of_a_run_go_on_with_the_shares_of_the_new_text(texts: Path, given: str):
    (texts / "other").write_text("sport\tball\n" + "the economy\tbank price\n" * 3)
    files_here = [f"corpus.train={texts / 'other'}", f"corpus.valid={texts / 'valid'}"]
    run = trained(*CONDITION, *files_here, f"corpus.vocabulary={given}", f"trainer.from={given}",
                  f"run_dir={texts / 'on'}")  # fmt: skip
    assert load(run).vocabulary.conditions == ["sport", "the economy"]
    assert load(run).model.get_buffer("condition_shares").tolist() == [0.25, 0.75]


def test_a_public_corpus_takes_only_the_words_of_a_run_with_labels(folder: Path):
    Path("train").write_text("pos\ta b\nneg\tb a\n" * 20)
    labelled = ["corpus=text", "corpus.train=train", "corpus.valid=train", "corpus.condition=true"]
    options = [*labelled, "corpus.context=sentence", "corpus.unknown=true", *QUICK]
    assert command(*options, "run_dir=labelled").code == 0
    done = command("corpus=pydoc", "corpus.vocabulary=labelled", "model=ngram", "model.order=1", "run_dir=plain")
    assert done.code == 0, done
    assert load_corpus({"name": "pydoc", "context": "stream", "vocabulary": "labelled"}).vocabulary.conditions == []
