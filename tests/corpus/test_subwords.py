"""Pieces of words: as SentencePiece cuts them, nothing of a text is lost, and what runs keep of them."""

import io
import math
import pickle
import random
import shutil
from pathlib import Path

import pytest
from command_line import MODELS, QUICK, command
from hypothesis import given
from hypothesis import strategies as st

from lmzoo import api
from lmzoo.commands import evaluate, generate, score
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Vocabulary, load_corpus
from lmzoo.corpus.form import Form
from lmzoo.corpus.pydoc import pydoc_lines
from lmzoo.corpus.subwords import _NO_PIECES, BYTES, Kind, Subwords, joined, learn_subwords
from lmzoo.corpus.user_files import read_vocabulary
from lmzoo.corpus.vocabulary import ADDED, EOS, UNK
from lmzoo.runs.kinds import summary

sentencepiece = pytest.importorskip("sentencepiece")

LINES = pydoc_lines()["train"][:1500]
STRANGE = "naïve\u0301 日本語 ▁ a▁b x<unk>y <s>a </s> <eos> <0x41> ﬁ 😀\u200d👩 \x01 é\u0301 zzzz ß"


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def pieces(request: pytest.FixtureRequest) -> Subwords:
    return learn_subwords(LINES, request.param, 1200)


@pytest.fixture(scope="module")
def theirs(pieces: Subwords):
    """SentencePiece's own model of the same text."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, model_type=pieces.kind, vocab_size=1200, byte_fallback=True,
        normalization_rule_name="identity", unk_piece="<eos>", bos_id=-1, eos_id=-1, split_by_unicode_script=False,
        split_by_number=False, num_threads=1, minloglevel=2,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def test_words_are_cut_as_sentencepiece_cuts_them(pieces: Subwords, theirs):
    assert [theirs.id_to_piece(i) for i in range(257, theirs.get_piece_size())] == list(pieces.scores)
    other = pydoc_lines()["test"][:400]
    letters = random.Random(0)
    drawn = ["".join(letters.choices("abcdefgstnei日é", k=letters.randint(1, 30))) for _ in range(400)]
    words = sorted({word for line in [*other, STRANGE.replace("▁", "")] for word in line.split()} | {*drawn})
    assert len(words) > 1000
    assert [pieces.cut(word) for word in words] == theirs.encode(words, out_type=str)


def test_pieces_that_have_been_used_can_be_pickled(pieces: Subwords):
    assert pickle.loads(pickle.dumps(pieces)).cut("ababa") == pieces.cut("ababa")


@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))  # a text has no null bytes
def test_nothing_of_a_text_is_lost_but_how_much_space_there_is(pieces: Subwords, text: str):
    cut = [piece for word in text.split() for piece in pieces.cut(word)]
    assert all(piece in pieces.scores or piece in BYTES for piece in cut)
    assert joined(cut) == " ".join(text.split())


def test_every_strange_sign_comes_back(pieces: Subwords):
    form = Form(unit=pieces.kind).with_pieces(pieces)
    vocabulary = Vocabulary(pieces.words, form)
    lines = [STRANGE, "", "the  statement "]
    tokens = vocabulary.encode(lines)
    assert vocabulary.decode(tokens.tolist()) == f"{STRANGE}\n\nthe statement\n"
    assert int(vocabulary.word_begins(tokens).sum()) == sum(len(line.split()) + 1 for line in lines)
    assert {EOS, UNK, *ADDED} - {EOS} == _NO_PIECES
    assert not {*pieces.scores} & {*ADDED, UNK, *BYTES}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("short", [0, 2**20])
def test_a_text_is_encoded_as_its_words_are_cut(pieces: Subwords, monkeypatch, reverse: bool, short: int):
    monkeypatch.setattr("lmzoo.corpus.vocabulary.SHORT", short)
    monkeypatch.setattr("lmzoo.corpus.lookup.BLOCK", 200)
    monkeypatch.setattr("lmzoo.corpus.lookup.DISTINCT", 30)  # the table is cleared now and then
    form = Form(unit=pieces.kind, reverse=reverse).with_pieces(pieces)
    vocabulary = Vocabulary(pieces.words, form)
    lines = [STRANGE, "", "<s> and <eos>", *LINES[:200], *LINES[:100]]
    expected = [vocabulary.index[word] for line in lines for word in [*form.words(line), EOS]]
    assert vocabulary.encode(lines).tolist() == expected
    assert vocabulary.decode(expected).split() == "\n".join(lines).split()


@given(lines=st.lists(st.text(alphabet="ab \t\u3000", max_size=9), min_size=1))
def test_words_of_characters_are_counted_as_white_space_parts_them(lines: list[str]):
    form = Form(unit="char")
    vocabulary = Vocabulary(["<eos>", *form.words("ab \t\u3000")], form)
    tokens = vocabulary.encode(lines)
    expected = sum(len(line.split()) + 1 for line in lines)
    assert int(vocabulary.word_begins(tokens).sum()) == expected
    whole, before = 0, 0
    for part in tokens.split(3):
        whole, before = whole + int(vocabulary.word_begins(part, before).sum()), int(part[-1])
    assert whole == expected


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_as_many_pieces_as_the_text_has(kind: str):
    with pytest.raises(UserError, match=r"corpus.subwords=5000: train has pieces for at most \d+; choose another"):
        learn_subwords(["a cat sat"], kind, 5000)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match=r"corpus.subwords=258: train has pieces for at least \d+; choose another"):
        learn_subwords(["a cat sat"], kind, 258)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_no_piece_has_white_space_in_it_of_whatever_kind(kind: Kind):
    letters = random.Random(0)
    words = [[letters.choice(["alpha", "beta", "gamma"]) for _ in range(6)] for _ in range(200)]
    other = learn_subwords(("\u00a0".join(line[:3]) + "\t" + "\u2028".join(line[3:]) for line in words), kind, 268)
    assert all(piece.split() == [piece] for piece in other.scores)
    assert other == learn_subwords((" ".join(line) for line in words), kind, 268)


def test_a_text_has_pieces_of_train_alone(tmp_path: Path):
    for name, text in (("train", LINES), ("valid", ["日本 the statement"])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in text))
    options = defaults("corpus", "text") | {name: str(tmp_path / name) for name in ("train", "valid")}
    options |= {"unit": "bpe", "subwords": 900}
    corpus = load_corpus(options)
    assert len(corpus.vocabulary) == 900
    assert corpus.vocabulary.words == learn_subwords(LINES, "bpe", 900).words
    words = corpus.vocabulary.decode(corpus.splits["valid"].tolist())
    assert words == "日本 the statement\n"
    labelled = tmp_path / "labelled"
    labelled.write_text("".join(f"l\t{line}\n" for line in LINES if line))
    given = load_corpus(options | {"train": str(labelled), "valid": str(labelled), "condition": True,
                                   "context": "sentence"})  # fmt: skip
    assert given.vocabulary.words == corpus.vocabulary.words
    for wrong, told in (
        ({"min_count": 2}, r"corpus.unit=bpe: no text has unknown words.*leave out min_count"),
        ({"vocabulary": str(tmp_path / "train")}, r"train has no pieces of words; name a run of corpus.unit=bpe"),
    ):
        with pytest.raises(UserError, match=told):
            load_corpus(options | wrong)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of pieces."""
    folder = tmp_path_factory.mktemp("pieces")
    (folder / "train").write_text("".join(f"{line}\n" for line in LINES))
    (folder / "valid").write_text("".join(f"{line}\n" for line in pydoc_lines()["valid"][:60]))
    files = [f"corpus.{split}={folder / name}" for split, name in (("train", "train"), ("valid", "valid"))]
    for unit, model in (("bpe", "rnn"), ("unigram", "ngram")):
        options = [f"corpus.unit={unit}", "corpus.subwords=700", *MODELS[model], *QUICK, "trainer.epochs=1"]
        assert command("corpus=text", *files, *options, f"run_dir={folder / unit}").code == 0
    return {unit: folder / unit for unit in ("bpe", "unigram")}


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
def test_a_run_reads_and_writes_text_as_it_was_trained(runs: dict[str, Path], unit: str, tmp_path: Path):
    run = runs[unit]
    lm = api.load(run)
    assert lm.vocabulary.words == learn_subwords(LINES, unit, 700).words  # pyright: ignore[reportArgumentType]
    file = tmp_path / "text"
    file.write_text(f"the statement {STRANGE}\n")
    measured = evaluate.evaluate(run, str(file), "sentence", device="cpu")
    assert measured["logprob"] == pytest.approx(lm.score(file.read_text().strip()), rel=1e-5)
    whole = len(f"the statement {STRANGE}".split()) + 1
    assert measured["words"] == whole
    assert measured["perplexity_per_word"] == pytest.approx(math.exp(-measured["logprob"] / whole))
    label = f"per word, of one segmentation: perplexity {measured['perplexity_per_word']:.2f} over {whole} words"
    assert label in command(str(run), str(file), "--context", "sentence", main=evaluate.main).out
    assert lm.results is not None
    per_word = lm.results["perplexity_per_word"]["valid"]
    assert f"per word, of one segmentation: valid perplexity {per_word:.2f}" in summary(lm.results)
    assert lm.results["words"]["valid"] == sum(len(line.split()) + 1 for line in pydoc_lines()["valid"][:60])
    assert lm.score("the class") == pytest.approx(
        sum(-0.6931471805599453 * bits for _, bits in lm.surprisal("the class"))
    )
    done = command(str(run), str(file), main=score.main)
    assert "▁statement\t" in done.out
    again = command("corpus=text", *(f"corpus.{s}={run.parent / s}" for s in ("train", "valid")),
                    f"corpus.unit={unit}", "corpus.subwords=700", *MODELS[{"bpe": "rnn"}.get(unit, "ngram")], *QUICK,
                    "trainer.epochs=1", f"run_dir={run}")  # fmt: skip
    assert "already finished" in again.out, again
    drawn = command(str(run), "--prompt", "The  statement", "--tokens", "40", main=generate.main)
    assert drawn.out.startswith("The statement"), drawn
    assert "▁" not in drawn.out


def test_pieces_are_taken_from_a_run_of_like_pieces_alone(runs: dict[str, Path], tmp_path: Path):
    (tmp_path / "config.yaml").write_text("corpus: {name: ptb}\n")
    for source, told in (
        (runs["bpe"], r"has corpus.unit=bpe, and here it is unigram; repeat its option$"),
        (tmp_path, r"has no pieces of words; name a run of corpus.unit=unigram$"),
    ):
        with pytest.raises(UserError, match=told):
            read_vocabulary(str(source), Form(unit="unigram", subwords=1200))


def test_a_run_of_other_scores_is_refused(runs: dict[str, Path], tmp_path: Path):
    run = tmp_path / "unfinished"  # so that results.json has no checksum of its files
    shutil.copytree(runs["bpe"], run, ignore=shutil.ignore_patterns("results.json"))
    scores = run / "scores.txt"
    before = scores.read_bytes()
    for damaged, told in (
        (b"1\n" + before, "scores.txt: damaged (the pieces and their scores do not fit)"),
        (before.replace(b"-1.0\n", b"-1.5\n", 1), "not the words that best.pt was trained with"),
        (before.replace(b"-1.0\n", b"nan\n", 1), "scores.txt: damaged (a score is not a number)"),
    ):
        assert damaged != before
        scores.write_bytes(damaged)
        assert told in command(str(run), "valid", main=evaluate.main).refused()
