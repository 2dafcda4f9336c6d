"""Words that a run does not know: what is reported of them by each command and by Python."""

import json
import math
from pathlib import Path

import pytest
from command_line import command
from predictions import TRAIN

import lmzoo
from lmzoo.commands import compare, evaluate, generate, pairs, rerank, score
from lmzoo.core.errors import UserError
from lmzoo.corpus.tokenizer import ptb, words
from lmzoo.corpus.vocabulary import Vocabulary
from lmzoo.protocol.lines import file_parts, scored


@pytest.mark.parametrize("main", [score.main, evaluate.main])
def test_capitals_that_make_words_unknown_are_reported(
    run: Path, tmp_path: Path, main, caplog: pytest.LogCaptureFixture
):
    """Only a text of which many words are unknown, and most of these by their capitals alone."""
    for text, told in (("THE DOG SAW A CAT\n", True), ("the dog saw\n", False), ("the Zebra ran X Y\n", False)):
        (tmp_path / "text").write_text(text)
        caplog.clear()
        assert command(str(run), str(tmp_path / "text"), main=main).code == 0
        small = f"{tmp_path / 'text'}: most of its unknown words are known in small letters; write it in these"
        assert (small in caplog.messages) == told, text


def test_small_letters_that_make_words_unknown_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (file := tmp_path / "text").write_text("the dog saw <unk>\n")
    assert [*file_parts(Vocabulary(["<eos>", "<unk>", "THE", "DOG", "SAW"]), file)]
    assert caplog.messages == [f"{file}: most of its unknown words are known in capitals; write it in these"]


def test_punctuation_that_makes_words_unknown_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (file := tmp_path / "text").write_text('"The dog, saw: a (cat)"\n')
    known = ["<eos>", "<unk>", "the", "dog", "saw", "a", "cat"]
    for vocabulary, form in (
        (
            [*known, "The", *'",:()'],
            "without punctuation; separate it from words, as lmzoo score --tokenize words does",
        ),
        (known, "in small letters without punctuation; lmzoo score --tokenize ptb writes them so"),
    ):
        caplog.clear()
        assert [*file_parts(Vocabulary(vocabulary), file)]
        assert caplog.messages == [f"{file}: most of its unknown words are known {form}"]
        caplog.clear()
        assert [*file_parts(Vocabulary(vocabulary), file, tokenize=ptb)]
        assert not caplog.messages


def test_plain_text_is_cut_into_words():
    assert ptb("Mr. Smith’s U.S. firm doesn't pay $3,000.50; they can't, in 1987.") == (
        "mr. smith 's u.s. firm does n't pay $ N they ca n't in N"
    )
    assert ptb("I cannot; Gimme what he's gonna say, toucannot.") == "i can not gim me what he 's gon na say toucannot"
    assert ptb("A well-known F-16 rose 7%, or 7.5 %.") == "a well-known f-16 rose N N or N N"
    assert ptb("On Oct. 19, Sen. Smith met Rep. Jones vs. Co.") == "on oct. N sen. smith met rep. jones vs. co."
    assert words("It's 3,000.5 (well-known)!") == "It's 3,000.5 ( well-known ) !"
    for hindi in (words, ptb):
        assert hindi("हिन्दी में काम") == "हिन्दी में काम"
    assert words("❤\ufe0flove it") == "❤ \ufe0f love it"
    assert words("می\u200cخواهم می\u200c") == "می\u200cخواهم می \u200c"
    assert ptb("Café cafe\u0301") == "café cafe\u0301"
    assert words("") == ptb("?!") == ""


def test_how_many_words_are_unknown_is_reported(run: Path, tmp_path: Path):
    """`run` knows the, dog, saw, a, cat; here all nine words are the model's but zebra, ran and <unk>."""
    (tmp_path / "nbest").write_text("1 ||| the zebra ran\n1 ||| <unk> saw a dog\n")
    (tmp_path / "pairs").write_text(json.dumps({"sentence_good": "the zebra ran", "sentence_bad": "<unk> saw a dog"}))
    nbest = command(str(run), str(tmp_path / "nbest"), main=rerank.main)
    assert f"{tmp_path / 'nbest'}: 3 of 9 tokens are unknown words, which the model reads as <unk>\n" in nbest.err
    assert "pairs: 3 of 9 tokens are unknown words" in command(str(run), str(tmp_path / "pairs"), main=pairs.main).err
    (tmp_path / "pairs").write_text(json.dumps({"sentence_good": "the dog", "sentence_bad": "a cat"}))
    assert not command(str(run), str(tmp_path / "pairs"), main=pairs.main).err


def test_every_command_and_python_agree_on_unknown_words(run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Of a split, too, whose rare words are <unk> since it was encoded."""
    (tmp_path / "text").write_text(TRAIN)
    lines = list(scored(*lmzoo.load(run), TRAIN.splitlines(), "stream"))
    assert [line.unknown for line in lines] == [0, 0, 1, 0]
    without = math.exp(-sum(line.logprob_of_known for line in lines) / 21)
    summed = command(str(run), str(tmp_path / "text"), main=score.main).err
    assert "without 1 unknown word " in summed
    assert f", {without:.2f} (ppl; " in summed
    for of in ("valid", str(tmp_path / "text")):
        figures = evaluate.evaluate(run, of, device="cpu")
        assert (figures["unknown"], figures["perplexity_of_known"]) == (1, pytest.approx(without, rel=1e-6))
        caplog.clear()
        assert lmzoo.load(run).perplexity(of) == pytest.approx(figures["perplexity"])
        assert caplog.messages[0] == f"{of}: 1 of 22 tokens are unknown words, which the model reads as <unk>"
    compared = command("--tokens", str(run), str(run), "--split", "valid", "--device", "cpu", main=compare.main).out
    assert compared.count(f", without its 1 unknown word {without:.2f}\n") == 2


def test_python_says_which_words_are_unknown(run: Path, caplog: pytest.LogCaptureFixture):
    lm = lmzoo.load(run)
    assert [word for word, _ in lm.surprisal("the xylophone <unk> ran")] == [
        "the", "xylophone→<unk>", "<unk>", "ran→<unk>", "<eos>",
    ]  # fmt: skip
    assert not caplog.messages
    told = "text: xylophone: read as <unk>, since the model does not know it"
    lm.next_words("the xylophone xylophone")
    lm.sample(3, prompt="the xylophone")
    assert caplog.messages == [told, told]
    caplog.clear()
    lm.score("the xylophone")
    assert caplog.messages == ["text: 1 of 3 tokens are unknown words, which the model reads as <unk>"]
    caplog.clear()
    lm.score("the dog")
    lm.next_words("the dog")
    assert not caplog.messages


@pytest.mark.parametrize("mark", ["<s>", "</s>"])
def test_marks_of_sentences_are_refused_everywhere(run: Path, tmp_path: Path, mark: str):
    (tmp_path / "text").write_text(f"the dog\na {mark} cat\n")
    (tmp_path / "nbest").write_text(f"1 ||| the dog\n1 ||| a {mark} cat\n")
    (tmp_path / "pairs").write_text(json.dumps({"sentence_good": "the dog", "sentence_bad": f"a {mark} cat"}))
    for main, name in ((evaluate.main, "text"), (score.main, "text"), (rerank.main, "nbest"), (pairs.main, "pairs")):
        assert f"line 2: {mark} is added at " in command(str(run), str(tmp_path / name), main=main).refused()
    files = [f"corpus.{split}={tmp_path / 'text'}" for split in ("train", "valid")]
    trained = command("corpus=text", *files, "model=ngram", f"run_dir={tmp_path / 'run'}").refused()
    assert f"{tmp_path / 'text'}, line 2: {mark} is added at " in trained
    assert command("corpus=text", *files, "corpus.unit=char", "model=ngram", "model.order=2", "device=cpu",
                   "model.discount_fallback=true", f"run_dir={tmp_path / 'char'}").code == 0  # fmt: skip
    assert f"line 1: {mark} is added at " in command(str(run), "--prompt", mark, main=generate.main).refused()
    lm = lmzoo.load(run)
    for ask in (lm.score, lm.surprisal, lm.next_words):
        with pytest.raises(UserError, match=f"text, line 1: {mark} is added"):
            ask(f"the {mark}")
