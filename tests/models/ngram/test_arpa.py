"""ARPA files are read as KenLM reads them, and an error names the line."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from arpa_model import corpus_of, model_of
from arpa_text import KENLM
from command_line import command

from lmzoo import load
from lmzoo.commands import evaluate
from lmzoo.commands import score as score_words
from lmzoo.core.errors import UserError
from lmzoo.corpus.form import Form
from lmzoo.corpus.user_files import read_vocabulary
from lmzoo.corpus.vocabulary import Vocabulary
from lmzoo.models.ngram.arpa import Arpa, check_words
from lmzoo.models.ngram.arpa_file import holds_arpa, read_arpa, write_arpa
from lmzoo.models.ngram.editing import mixed, pruned, renumbered
from lmzoo.models.ngram.table import NGramTable
from lmzoo.protocol.lines import known_words, scored
from lmzoo.protocol.perplexity import score
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import summary

FOLDER = Path(__file__).parent / "lmplz"


"""What KenLM made of a small text."""


def log10(model, vocabulary: Vocabulary, line: str) -> list[float]:
    tokens = vocabulary.encode([line])[None]
    return (model(tokens, model.initial_state(1))[0][0] / math.log(10)).tolist()


def test_a_file_of_kenlm_s(tmp_path: Path):
    vocabulary = Vocabulary(["<eos>", "a", "b", "c", "<unk>"])
    model = model_of(KENLM, vocabulary.words, tmp_path)
    assert model.order == 3
    assert log10(model, vocabulary, "a b") == pytest.approx([-0.3, -0.15, -0.05])
    # b | <s> backs off; b | <s> b backs off twice; </s> | b b is </s> | b
    assert log10(model, vocabulary, "b b") == pytest.approx([-0.5 - 0.8, -0.3 - 0.8, -0.2])
    # c is no word of the file, so it is <unk>, as a context too
    assert log10(model, vocabulary, "a c") == pytest.approx([-0.3, -0.2 - 0.4 - 2, 0 - 1])
    # memory does not cross the sentence boundary: a | <s>, not a | b </s>
    tokens = vocabulary.encode(["a b", "a"])[None]
    scores = model(tokens, model.initial_state(1))[0][0] / math.log(10)
    assert scores.tolist() == pytest.approx([-0.3, -0.15, -0.05, -0.3, -0.2 - 0.6])


def test_a_file_of_srilm_s(tmp_path: Path):
    """Text before the header, backoffs left out, -99 for zero, no <unk>, words in several columns."""
    header = "made by hand\n\n\\data\\\nngram  1 = 4\nngram 2=3\n"
    unigrams = "\n\\1-grams:\n-0.5\t</s>\n-99\t<s> -0.7\n-0.4 a\t-0.6\n-99\tb\n"
    bigrams = "\n\\2-grams:\n-0.1\t<s> a\n-0.2\ta </s>\n-0.1\t</s> <s>\n\n\\end\\\n"
    words = ["<eos>", "a", "b", "c"]
    model = model_of(header + unigrams + bigrams, words, tmp_path)
    assert log10(model, Vocabulary(words), "a a") == pytest.approx([-0.1, -1.0, -0.2])
    assert log10(model, Vocabulary(words), "b") == pytest.approx([-math.inf, -0.5])
    measured = score(model, Vocabulary(words).encode(["a", "c b"]), "sentence")
    assert measured.impossible == 2
    assert math.isinf(measured.perplexity)


def test_boundaries_where_no_sentence_has_them_say_nothing(tmp_path: Path):
    words = ["<eos>", "a", "b", "<unk>"]
    more = KENLM.replace("ngram 2=4", "ngram 2=5").replace("ngram 3=2", "ngram 3=3")
    more = more.replace("-0.6\ta </s>\t0\n", "-0.6\ta </s>\t0\n-0.01\tb <s>\t0\n")
    more = more.replace("-0.05\ta b </s>\n", "-0.05\ta b </s>\n-0.01\ta </s> b\n")
    contexts = torch.tensor(list(product(range(4), repeat=2)))
    plain, other = (model_of(text, words, tmp_path).next_logprobs(contexts) for text in (KENLM, more))
    assert torch.equal(other, plain)


ENDING = KENLM.replace("2=4", "2=5").replace("3=2", "3=3").replace("</s>\t0\n", "</s>\t-0.7\n")


ENDING = ENDING.replace("\n\n\\3-grams:", "\n-3\t<s> </s>\t-0.6\n\n\\3-grams:\n-1.5\t<s> a </s>")


"""`KENLM`, with backoffs of all 1-grams and 2-grams that end in ``</s>``, as MITLM and CMU's lmtool write them."""


def test_a_backoff_after_the_end_of_a_sentence_is_0(tmp_path: Path):
    """Figures by hand, as in "a file of KenLM's": what a line has does not depend on the line before."""
    words = ["<eos>", "a", "b", "<unk>"]
    model, vocabulary = model_of(ENDING, words, tmp_path), Vocabulary(words)
    lines = {
        "a b": [-0.3, -0.15, -0.05],
        "b": [-0.5 - 0.8, -0.2],
        "a": [-0.3, -1.5],
        "": [-3],
        "b b": [-1.3, -1.1, -0.2],
    }
    for first, other in product(lines, repeat=2):
        tokens = vocabulary.encode([first, other])[None]
        scores = model(tokens, model.initial_state(1))[0][0] / math.log(10)
        assert scores.tolist() == pytest.approx(lines[first] + lines[other], abs=1e-6)
    model = model_of(ENDING, words, tmp_path)
    begun = model.predict(model.initial_state(1))
    for first in lines:
        state = model(vocabulary.encode([first])[None], model.initial_state(1))[1]
        assert torch.equal(model.predict(state), begun)


def test_no_backoff_after_the_end_of_a_sentence_is_written_pruned_or_mixed(tmp_path: Path):
    for name, text in {"plain": KENLM, "ending": ENDING}.items():
        (tmp_path / name).write_text(text)
    words, table = read_arpa(tmp_path / "ending")
    _, plain = read_arpa(tmp_path / "plain")
    edited = [table, pruned(table, 0.1), mixed([table, plain], torch.tensor([0.3, 0.7]))]
    for number, each in enumerate([*edited, renumbered(table, torch.tensor([0, 2, 1, 3]), 4)]):
        write_arpa(tmp_path / f"{number}.arpa", each, words)
        lines = (tmp_path / f"{number}.arpa").read_text().splitlines()
        ends = [line.split("\t") for line in lines if "</s>" in line]
        assert len(ends) > 1
        assert {float(backoff[0]) for _, _, *backoff in ends if backoff} == {0}


def test_a_file_as_cmu_s_lmtool_writes_it_has_the_figures_of_kenlm(tmp_path: Path):
    """A fixed discount of one half; figures of kenlm 0.3.0, which the rule by itself has, too."""
    folder = Path(__file__).parent
    words = read_vocabulary(str(folder / "lmtool.arpa")).words
    model, vocabulary = model_of((folder / "lmtool.arpa").read_text(), words, tmp_path), Vocabulary(words)
    lines = ["turn the lamp on", "open the door", "turn left", "stop", "close the lamp"]
    expected = [[-0.5441, -0.6021, -0.301, -0.6021, -0.301], [-1.1461, -0.301, -0.301, -0.301],
                [-0.5441, -0.9031, -0.301], [-1.1461, -0.301], [-1.1461, -0.301, -0.7782, -1.2621]]  # fmt: skip
    for context in ("stream", "sentence"):
        assert score(model, vocabulary.encode(lines), context).perplexity == pytest.approx(4.13, abs=0.005)
        for order in (lines, lines[::-1]):
            found = {line: (each.logprobs / math.log(10)).tolist()
                     for line, each in zip(order, scored(model, vocabulary, order, context), strict=True)}  # fmt: skip
            for line, logprobs in zip(lines, expected, strict=True):
                assert found[line] == pytest.approx(logprobs, abs=1e-4)


def test_a_checkpoint_needs_no_file(tmp_path: Path):
    model = model_of(KENLM, ["<eos>", "a", "b", "<unk>"], tmp_path)
    fresh = Arpa(vocabulary_size=4, path="gone")
    fresh.load_state_dict(model.state_dict())
    assert fresh.order == 3
    assert torch.equal(fresh.predict(fresh.initial_state(1)), model.predict(model.initial_state(1)))


def test_a_checkpoint_of_another_vocabulary_is_refused(tmp_path: Path):
    """The words of the table are those of the file; the corpus's words are as many as the entries."""
    model = model_of(KENLM, ["<eos>", "a", "b", "<unk>"], tmp_path)
    with pytest.raises(RuntimeError, match=r"\[4\].*\[2\]"):
        Arpa(vocabulary_size=2, path=None).load_state_dict(model.state_dict())


OWN_WORDS = """\\data\\
ngram 1=6
ngram 2=3

\\1-grams:
-99\t<s>\t-0.3010
-0.6021\t</s>
-0.6021\tthe\t-0.2
-0.6021\tcat\t-0.2218
-0.9031\tdog
-0.9031\t<unk>

\\2-grams:
-0.3010\t<s> the
-0.3979\tthe cat
-0.3979\tcat </s>

\\end\\
"""


def run_of(text: str, arpa: str, folder: Path, *options: str) -> Path:
    """A run of an ARPA file and a text, which is train and valid."""
    (folder / "lm.arpa").write_text(arpa, encoding="utf-8")
    (folder / "text").write_text(text)
    paths = [f"corpus.{split}={folder / 'text'}" for split in ("train", "valid")]
    model = ["model=arpa", f"model.path={folder / 'lm.arpa'}", "device=cpu"]
    done = command("corpus=text", *paths, "corpus.context=sentence", *model, *options, f"run_dir={folder / 'run'}")
    assert done.code == 0, done
    return folder / "run"


def known_of(folder: Path, line: str) -> list[bool]:
    model, vocabulary = load(folder)
    (found,) = scored(model, vocabulary, [line], "sentence")
    return found.known.tolist()


def test_what_is_unknown_is_decided_by_the_file(tmp_path: Path):
    """The sums without unknown words are those of KenLM: 10^(2.7957 / 7)."""
    run = run_of("the cat\nthe zebra saw the cat\n", OWN_WORDS, tmp_path, "corpus.unknown=true")
    assert known_of(run, "the zebra saw the cat") == [True, False, False, True, True, True]
    results = Run(run).results()
    assert results is not None
    assert results["unlisted_tokens"] == {"valid": 2}
    assert "2 of 9 valid tokens are of words that the model lacks and reads as <unk>" in summary(results)
    assert known_of(run, "<unk> yak cat") == [False, False, True, True]
    text = str(tmp_path / "text")
    summed = command(str(run), text, "--log10", main=score_words.main).err
    assert "without 2 unknown words -2.7957, 2.51" in summed
    for of in (text, "valid"):
        figures = evaluate.evaluate(run, of, device="cpu")
        assert (figures["unknown"], figures["perplexity_of_known"]) == (2, pytest.approx(10 ** (2.7957 / 7), rel=1e-5))


def test_the_words_of_a_file_can_be_those_of_the_corpus(tmp_path: Path):
    vocabulary = f"corpus.vocabulary={tmp_path / 'lm.arpa'}"
    run = run_of("the cat\n", OWN_WORDS.replace("<unk>", "<UNK>"), tmp_path, vocabulary)
    assert load(run).vocabulary.words == ["<eos>", "the", "cat", "dog", "<unk>"]
    assert known_of(run, "the dog saw") == [True, True, False, True]
    (tmp_path / "crlf").write_bytes(OWN_WORDS.replace("\n", "\r\n").encode())
    assert read_vocabulary(str(tmp_path / "crlf")).words == load(run).vocabulary.words


def test_words_that_stand_alone_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    corpus = corpus_of(["<eos>", "the", "cat", "zebra", "<unk>"])
    (tmp_path / "lm.arpa").write_text(OWN_WORDS.replace("dog", "Dog"))
    words, table = read_arpa(tmp_path / "lm.arpa")

    def told(words: list[str], table: NGramTable, vocabulary: Vocabulary) -> list[str]:
        caplog.clear()
        with caplog.at_level("INFO"):
            check_words("FILE", words, table, vocabulary)
        return caplog.messages

    assert told(words, table, corpus.vocabulary) == [
        "FILE: does not have 1 word of the corpus (zebra), which it reads as <unk>",
        "FILE: the corpus does not have 1 word of the file (Dog), so they are unknown; "
        "corpus.vocabulary=FILE includes them",
    ]
    closed = replace(table, logprob=table.logprob.clone())
    closed.logprob[words.index("<unk>")] = -math.inf
    assert told(words, closed, corpus.vocabulary)[0] == (
        "FILE: has no <unk>, so it gives probability 0 to 2 words of the corpus (zebra, <unk>)"
    )
    small = Vocabulary(["<eos>", "the", "cat"], Form(lower=True))
    assert told(words, table, small) == ["FILE: no text can have 1 word of the file (Dog): corpus.lower=true"]
    strange = ["</s>", "a\u3000b", "<s>", "N", "<unk>"]
    assert told(strange, table, Vocabulary(["<eos>"]))[0] == (
        "FILE: no text can have 2 words of the file (a\u3000b, <s>): white space parts words"
    )
    assert (
        "(<s>, it's)"
        in told(["</s>", "<s>", "N", "it's", "<unk>"], table, Vocabulary(["<eos>"], Form(tokenizer="ptb")))[0]
    )
    characters = told(["</s>", "<space>", "a", "ab", "<unk>"], table, Vocabulary(["<eos>", "a"], Form(unit="char")))
    assert characters[0] == "FILE: no text can have 1 word of the file (ab): corpus.unit=char"


def test_unknown_words_without_unk_are_reported(tmp_path: Path):
    closed = OWN_WORDS.replace("ngram 1=6", "ngram 1=5").replace("-0.9031\t<unk>\n", "")
    run = run_of("the cat\nthe zebra cat\n", closed, tmp_path, "corpus.unknown=true")
    told = command(str(run), str(tmp_path / "text"), main=evaluate.main).out
    assert "1 of the tokens have probability 0, 1 of them unknown words, as the model has no <unk>" in told
    told = command(str(run), str(tmp_path / "text"), main=score_words.main).err
    assert told.endswith("; the model has no <unk>, so that unknown words have probability 0\n")


VARIANTS = {
    "capital <UNK>": OWN_WORDS.replace("<unk>", "<UNK>")
    .replace("ngram 2=3", "ngram 2=4")
    .replace("-0.3979\tthe cat\n", "-0.3979\tthe cat\n-0.9\tthe <UNK>\n"),
    "a suffix is missing": KENLM.replace("ngram 3=2", "ngram 3=3").replace("\n\n\\end", "\n-1.5\ta b a\n\n\\end"),
}


KENLM_SCORES = {
    "capital <UNK>": {
        "the cat saw dog": [-0.301, -0.3979, -1.1249, -0.9031, -0.6021],
        "the <UNK> yak": [-0.301, -0.9, -0.9031, -0.6021],
    },
    "a suffix is missing": {
        "a b a b a": [-0.3, -0.15, -1.5, -0.35, -1.5, -0.6],
        "b a c <unk> a": [-1.3, -1.2, -2.4, -2, -0.9, -0.6],
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("live", [False, True])
def test_files_are_read_as_kenlm_reads_them(variant: str, live: bool, tmp_path: Path):
    """`KENLM_SCORES` are of kenlm 0.3.0; where it is installed, it is asked again."""
    vocabulary = Vocabulary(["<eos>", "the", "cat", "dog", "saw", "yak", "<UNK>", "a", "b", "c", "<unk>"])
    model = model_of(VARIANTS[variant], vocabulary.words, tmp_path)
    theirs = KENLM_SCORES[variant]
    if live:
        kenlm = pytest.importorskip("kenlm", reason="asks KenLM itself: pip install kenlm")
        other = kenlm.Model(str(tmp_path / "model.arpa"))
        theirs = {line: [p for p, _, _ in other.full_scores(line)] for line in theirs}
        for line in theirs:
            unknown = [oov for _, _, oov in other.full_scores(line)]
            assert (~known_words(model, vocabulary)[vocabulary.encode([line])]).tolist() == unknown
    for line, scores in theirs.items():
        assert log10(model, vocabulary, line) == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize("form", [None, "gzip", "backports.zstd"])
@pytest.mark.parametrize("name", ["model.arpa", "model.arpa.gz", "model.arpa.zst"])
def test_packed_or_not_and_without_its_byte_order_mark_a_file_is_read(name: str, form: str | None, tmp_path: Path):
    data = b"\xef\xbb\xbf" + OWN_WORDS.encode()
    (tmp_path / name).write_bytes(pytest.importorskip(form).compress(data) if form else data)
    if form != {".gz": "gzip", ".zst": "backports.zstd"}.get(Path(name).suffix, form):
        with pytest.raises(UserError, match=rf"{name}: is .*not (gzip|zstd),? as its suffix says; rename it"):
            read_arpa(tmp_path / name)
        return
    assert holds_arpa(tmp_path / name)
    assert read_arpa(tmp_path / name)[0] == ["</s>", "the", "cat", "dog", "<unk>"]


def test_a_file_with_both_spellings_of_unk_is_refused(tmp_path: Path):
    table = NGramTable(3, torch.zeros(0, dtype=torch.int64), torch.full((3,), -1.1), torch.zeros(0))
    with pytest.raises(UserError, match="the vocabulary has both <UNK> and <unk>, which are one word in ARPA files"):
        write_arpa(tmp_path / "written", table, ["</s>", "<UNK>", "<unk>"])
    assert not (tmp_path / "written").exists()
    (tmp_path / "both").write_text(OWN_WORDS.replace("dog", "<UNK>"))
    with pytest.raises(UserError, match="line 11: expected another 1-gram, found '<unk>' again"):
        read_arpa(tmp_path / "both")
