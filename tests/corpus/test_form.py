"""Lines as words: characters, small letters, tokenizers; texts in several files, packed, without test."""

import gzip
import hashlib
import json
import math
import re
import sys
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from command_line import MODELS, QUICK, Outcome, command

from lmzoo import api
from lmzoo.commands import compare, evaluate, generate, score
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus, Vocabulary, load_corpus
from lmzoo.corpus.form import Form
from lmzoo.corpus.tokenizer import TOKENIZERS
from lmzoo.reports.comparison import collect, groups
from lmzoo.runs.kinds import summary

TEXT = "Ab a\tB.\r\n\n  aé <unk>\n"


def own(**options) -> Corpus:
    """A text of one's own."""
    return load_corpus(defaults("corpus", "text") | options)


def test_characters_are_words_and_nothing_of_a_line_is_lost():
    form = Form(unit="char")
    lines = [form.words(line) for line in TEXT.split("\n")[:-1]]
    assert lines[0] == ["A", "b", "<space>", "a", "<U+0009>", "B", "."]
    assert lines[1] == []
    assert lines[2] == ["<space>", "<space>", "a", "é", "<space>", *"<unk>"]
    vocabulary = Vocabulary(Vocabulary.of(form.prepared(TEXT.encode())).words, form)
    tokens = vocabulary.encode(TEXT.encode())
    assert len(tokens) == len(TEXT) - 1  # a character each, and the end of a line is one
    assert vocabulary.decode(tokens.tolist()) == TEXT.replace("\r", "")
    with pytest.raises(UserError, match=r"book, line 2: 'x' is not in the vocabulary.*corpus.unknown=true"):
        vocabulary.encode(["ab", "ax"], "book")


def test_every_white_space_is_a_character_of_its_own():
    white = [chr(i) for i in range(0x110000) if chr(i).isspace() and chr(i) not in "\r\n"]
    names = Form(unit="char").words("".join(white))
    assert len(set(names)) == len(white) > 20
    assert " ".join(names).split() == names
    assert Vocabulary(["<eos>", *names], Form(unit="char")).decode(range(1, len(names) + 1)) == "".join(white)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (Form(lower=True), ["the", "dog's", "<unk>,", "5.5"]),
        (Form(tokenizer="words"), ["The", "dog's", "<unk>", ",", "5.5"]),
        (Form(lower=True, tokenizer="words"), ["the", "dog's", "<unk>", ",", "5.5"]),
        (Form(lower=True, tokenizer="ptb"), ["the", "dog", "'s", "<unk>", "N"]),
        (Form(tokenizer="treebank"), ["The", "dog", "'s", "<unk>", ",", "5.5"]),
        (Form(unit="char", lower=True, tokenizer="ptb"), [c.replace(" ", "<space>") for c in "the dog 's <unk> N"]),
    ],
)
def test_letters_become_small_before_a_tokenizer_cuts(form: Form, expected: list[str]):
    assert form.words("The dog's <unk>, 5.5") == expected


def test_the_treebank_tokenizer_cuts_as_its_annotation_does():
    text = "Mr. O'Neill of U.S. Corp. can't buy \"it\" -- he said (for $1,234.5, 3%): they’ve gone... Not now, N."
    expected = (
        "Mr. O'Neill of U.S. Corp. ca n't buy \" it \" -- he said ( for $ 1,234.5 , 3 % ) : they 've gone ... "
        "Not now , N ."
    )
    assert TOKENIZERS["treebank"](text) == expected


def test_several_files_packed_or_not_are_one_text(tmp_path: Path):
    (tmp_path / "b.txt").write_text("b\nc")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"a b\n"))
    a, b = str(tmp_path / "a.txt.gz"), str(tmp_path / "b.txt")
    corpus = own(train=[b, a], valid=f"{tmp_path}/*")
    assert corpus.name == "b"
    assert own(train=a, valid=a).name == "a"
    assert own(train=f"{tmp_path}/*.txt", valid=b).name == tmp_path.name
    assert corpus.vocabulary.decode(corpus.splits["train"].tolist()) == "b <eos>\nc <eos>\na b <eos>"
    assert corpus.vocabulary.decode(corpus.splits["valid"].tolist()) == "a b <eos>\nb <eos>\nc <eos>"
    assert corpus.splits.keys() == corpus.sha256.keys() == {"train", "valid"}
    assert corpus.sha256["valid"] == hashlib.sha256(b"a b\nb\nc").hexdigest()  # what was packed, not how
    with pytest.raises(UserError, match=r"^corpus b has no test split; choose from: train, valid$"):
        corpus.splits["test"]
    with pytest.raises(UserError, match=rf"^{re.escape(a)}, line 1: 'b' is not in the vocabulary"):
        own(train=_only(tmp_path, "a"), valid=[a], unknown=False)
    with pytest.raises(UserError, match=r"none\*: no file matches it"):
        own(train=f"{tmp_path}/none*", valid=b)


def _only(folder: Path, word: str) -> str:
    folder = folder / "only"
    folder.mkdir()
    (folder / "text").write_text(word)
    return str(folder / "text")


PACKED = gzip.compress(b"a b\n" * 999, mtime=0)


@pytest.mark.parametrize("data", [PACKED[:-9], PACKED[:12] + b"x" * 9], ids=["cut", "changed"])
def test_a_packed_file_that_is_broken_is_refused(tmp_path: Path, data: bytes):
    (tmp_path / "a.gz").write_bytes(data)
    with pytest.raises(UserError, match=r"a.gz: no whole file of gzip"):
        own(train=str(tmp_path / "a.gz"), valid=str(tmp_path / "a.gz"))


def test_a_file_of_zstd_is_unpacked_if_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    zstd = pytest.importorskip("backports.zstd")
    whole, cut, other = (tmp_path / f"{name}.zst" for name in ("whole", "cut", "other"))
    whole.write_bytes(zstd.compress(b"a b\n" * 9))
    cut.write_bytes(zstd.compress(b"a b\n" * 999)[:-3])
    other.write_bytes(b"no zstd")
    corpus = own(train=[str(whole)], valid=str(whole))
    assert corpus.vocabulary.decode(corpus.splits["train"][:3].tolist()) == "a b <eos>"
    for file, told in (
        (cut, "no whole file of zstd; pack it again"),
        (other, "is not zstd, as its suffix says; rename it"),
    ):
        with pytest.raises(UserError, match=f".zst: {told}"):
            own(train=str(file), valid=str(file))
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with pytest.raises(
        UserError,
        match=r"a file of zstd, needs backports.zstd, which is not installed; pip install 'lmzoo-torch\[zstd\]'",
    ):
        own(train=str(cut), valid=str(cut))


def test_unknown_adds_a_word_and_a_vocabulary_is_taken_as_it_is(tmp_path: Path):
    (tmp_path / "text").write_text("b a b")
    (tmp_path / "other").write_text("b c")
    paths = {"train": str(tmp_path / "text"), "valid": str(tmp_path / "other")}
    corpus = own(**paths, unknown=True)
    assert corpus.vocabulary.words == ["<eos>", "<unk>", "b", "a"]
    assert corpus.splits["valid"].tolist() == [2, 1, 0]
    (tmp_path / "words").write_text("c\r\n<unk>\r\nb\r\n")
    given = own(**paths, vocabulary=str(tmp_path / "words"))
    assert given.vocabulary.words == ["<eos>", "c", "<unk>", "b"]
    assert given.splits["train"].tolist() == [3, 2, 3, 0]
    assert given.sha256["vocabulary"] == hashlib.sha256(b"<eos>\nc\n<unk>\nb").hexdigest()
    pydoc = load_corpus(defaults("corpus", "pydoc") | {"vocabulary": str(tmp_path / "words")})
    assert set(pydoc.splits["train"].tolist()) >= {0, 2}
    assert len(pydoc.vocabulary) == 4
    (tmp_path / "words").write_text("c\nb\n")
    with pytest.raises(UserError, match=r"text, line 1: 'a' is not in the vocabulary, which has no <unk>"):
        own(**paths, vocabulary=str(tmp_path / "words"))
    (tmp_path / "words").write_text("c\nc\n")
    with pytest.raises(UserError, match=r"words: a vocabulary is a list of distinct words"):
        own(**paths, vocabulary=str(tmp_path / "words"))
    for lines in ("<unk>\nb 3\n", "<unk>\n\nb\n", "<unk>\nb\u00a0c\n"):
        (tmp_path / "words").write_text(lines)
        with pytest.raises(UserError, match=r"words: line 2 is not one word; write a word a line"):
            own(**paths, vocabulary=str(tmp_path / "words"))
    with pytest.raises(
        UserError, match=r"corpus.unknown=false: min_count and max_size make words unknown; leave it out"
    ):
        own(train=str(tmp_path / "text"), unknown=False, min_count=2)
    with pytest.raises(UserError, match=r"corpus.vocabulary: fixes the vocabulary; leave out min_count"):
        own(**paths, vocabulary=str(tmp_path / "words"), min_count=2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of characters, small ones, trained without a test file."""
    folder = tmp_path_factory.mktemp("characters")
    (folder / "text.txt").write_text("Ab\tB.\nb  a\n" * 30)
    files = [f"corpus.{split}={folder / 'text.txt'}" for split in ("train", "valid")]
    options = [*files, "corpus.unit=char", "corpus.lower=true", *QUICK, *MODELS["rnn"]]
    assert command("corpus=text", *options, f"run_dir={folder / 'run'}").code == 0
    return str(folder / "run")


def printed(outcome: Outcome) -> str:
    assert outcome.code == 0, outcome
    return outcome.out


def test_a_run_of_characters_prints_bits_and_reads_files_as_it_was_trained(run: str, tmp_path: Path):
    results = api.load(run).results
    assert results is not None
    assert results["perplexity"].keys() == results["bits_per_character"].keys() == {"valid"}
    perplexity, bits = results["perplexity"]["valid"], results["bits_per_character"]["valid"]
    assert bits == pytest.approx(math.log2(perplexity))
    figures = evaluate.evaluate(Path(run), str(Path(run).parent / "text.txt"), device="cpu")
    assert figures["perplexity"] == pytest.approx(perplexity)
    assert figures["bits_per_character"] == pytest.approx(bits)
    assert figures["tokens"] == 30 * 11
    per_word = results["perplexity_per_word"]["valid"]  # "Ab", "B." and <eos>, "b", "a" and <eos>
    assert results["words"] == {"valid": 30 * 6}
    assert per_word == pytest.approx(perplexity ** (11 / 6)) == pytest.approx(figures["perplexity_per_word"])
    assert f"per word: valid perplexity {per_word:.2f}" in summary(results)
    assert f"per word: perplexity {per_word:.2f} over 180 words" in printed(command(run, "valid", main=evaluate.main))
    assert f"{per_word:.2f}" in printed(command(run, main=compare.main))
    assert f"({bits:.4f} bits per character)" in printed(command(run, "valid", main=evaluate.main))
    assert "has no test split" in command(run, main=evaluate.main).refused()
    assert "has no test split" in command("--tokens", run, run, main=compare.main).refused()
    assert f"{perplexity:.2f}" in printed(command(run, main=compare.main))
    (tmp_path / "text").write_text("A  B.\n")
    rows = printed(command(run, str(tmp_path / "text"), "--json", main=score.main))
    assert [word["word"] for word in json.loads(rows)["words"]] == ["a", "<space>", "<space>", "b", ".", "<eos>"]


def test_a_text_in_lower_case_is_another_text(tmp_path: Path):
    """Two models of the same words, which read the same file as different ones, have no figures to compare."""
    (tmp_path / "words").write_text("The\nthe\na\n<unk>\n")
    (tmp_path / "text").write_text("The a\nthe A\n" * 9)
    runs = [str(tmp_path / name) for name in ("as_written", "lower")]
    text = ["corpus=text", f"corpus.train={tmp_path / 'text'}", f"corpus.valid={tmp_path / 'text'}"]
    text += [f"corpus.vocabulary={tmp_path / 'words'}", "model=ngram", "model.order=1", "device=cpu"]
    for run, option in zip(runs, ("corpus.lower=false", "corpus.lower=true"), strict=True):
        assert command(*text, option, f"run_dir={run}").code == 0
    refused = command("--tokens", *runs, "--split", "valid", main=compare.main).refused()
    assert f"{runs[1]}: reads another text, or other words, than {runs[0]}" in refused
    assert len(groups(collect(map(Path, runs))[0])) == 2
    mixed = [word for word in text if not word.startswith("model")]
    refused = command(
        *mixed, "model=mixture", f"model.runs=[{runs[0]},{runs[1]}]", f"run_dir={tmp_path / 'm'}"
    ).refused()
    assert f"{runs[1]} has corpus.lower=true, and here it is false; choose another run" in refused


def test_a_run_of_characters_generates_text_without_spaces_between(run: str):
    drawn = printed(command(run, "--prompt", "AB ", "--tokens", "60", main=generate.main))
    assert drawn.startswith("ab ")
    assert "<" not in drawn
    assert len(drawn.rstrip("\n").replace("\\t", "\t")) in (62, 63)  # 60 drawn, of which the last may end a line
    assert api.load(run).sample(tokens=60, prompt="AB ")[0].rstrip("\n") == drawn.rstrip("\n").replace("\\t", "\t")
    assert "'z' is not in the vocabulary" in command(run, "--prompt", "az", main=generate.main).refused()


def paragraphs() -> list[str]:
    """English as it is written."""
    return [line for topic in topics.values() for part in topic.split("\n\n") if (line := " ".join(part.split()))]


def test_raw_prose_has_a_warning_that_names_what_mends_it(tmp_path: Path):
    """Nearly every word that comes before punctuation is there without it, too."""
    (tmp_path / "raw").write_text("\n".join(paragraphs()), encoding="utf-8")
    found = own(train=str(tmp_path / "raw"), valid=str(tmp_path / "raw"))
    (warning,) = (line for line in found.warnings if "punctuation" in line)
    counted = {word.strip(".,;:!?\"'“”‘’()…") for word in found.vocabulary.words}
    assert re.search(r", such as '[A-Za-z]+[^\w']', and [\d,]+ have capitals, such as '[A-Z]\w*'; corpus.tok", warning)
    assert len(counted) < 0.8 * len(found.vocabulary)
    for option in ("words", "ptb"):
        assert f"corpus.tokenizer={option} " in warning
        mended = own(train=str(tmp_path / "raw"), valid=str(tmp_path / "raw"), tokenizer=option)
        assert not [line for line in mended.warnings if "punctuation" in line]
    assert not load_corpus(defaults("corpus", "pydoc")).warnings


def test_treebanks_words_are_not_taken_for_raw_prose(ptb: Corpus):
    assert "mr." in ptb.vocabulary.index
    assert not ptb.warnings


def test_unseen_words_of_valid_make_rare_words_unknown_and_are_counted(tmp_path: Path):
    """The figures are those of the options that say so, whose shares are counted by hand."""
    (tmp_path / "train").write_text("a b a b once\nb a twice twice\n")
    (tmp_path / "valid").write_text("a new\nb\n")
    files = {"train": str(tmp_path / "train"), "valid": str(tmp_path / "valid")}
    found = own(**files)
    said = own(**files, min_count=2, unknown=True)
    assert found.vocabulary.words == said.vocabulary.words
    assert sorted(found.vocabulary.words) == ["<eos>", "<unk>", "a", "b", "twice"]
    assert all(found.splits[split].equal(said.splits[split]) for split in ("train", "valid"))
    assert found.warnings == [
        "valid or test has words that train lacks, so that these and words with fewer than 2 occurrences in train are "
        "<unk>: 9.1% of train, 20.0% of valid; the more are, the lower is perplexity, so compare runs of one "
        "vocabulary (corpus.unknown=false refuses such words)"
    ]
    assert not said.warnings
    with pytest.raises(UserError, match="valid, line 1: 'new' is not in the vocabulary"):
        own(**files, unknown=False)
    literal = files | {"train": str(tmp_path / "literal")}
    (tmp_path / "literal").write_text("a b a b once\nb a twice twice <unk>\n")
    assert sorted(own(**literal).vocabulary.words) == sorted(said.vocabulary.words)
    with pytest.raises(UserError, match="valid, line 1: 'new' is not in the vocabulary; replace it"):
        own(**literal, unknown=False)
    (tmp_path / "valid").write_text("a <unk>\nb\n")
    assert "once" in own(**literal).vocabulary.index  # and `<unk>` is a word of both
    (tmp_path / "valid").write_text("a\nb\n")
    assert "once" in own(**files).vocabulary.index  # nothing is unknown
    (tmp_path / "labelled").write_text("x\ta a\ny\tb\n")
    (tmp_path / "others").write_text("x\ta c\n")
    labelled = own(train=str(tmp_path / "labelled"), valid=str(tmp_path / "others"), condition=True, context="sentence")
    assert labelled.vocabulary.words == ["<eos>", "<unk>", "a"]
    held = own(train=files["train"], valid="50%")
    assert held.vocabulary.words == ["<eos>", "<unk>", "a", "b"]
    assert held.notes["valid"] == "lines 2 to 2 of train's 2"
    assert "60.0% of valid" not in held.warnings[0]
    assert "40.0% of valid" in held.warnings[0]


def test_text_without_spaces_gets_the_advice_to_read_characters(tmp_path: Path):
    (tmp_path / "train").write_text("天气很好\n今天天气\n去北京\n")
    (tmp_path / "valid").write_text("今天很好\n")
    warning, *_ = own(train=str(tmp_path / "train"), valid=str(tmp_path / "valid")).warnings
    assert warning.endswith("; for text without spaces between words set corpus.unit=char")
