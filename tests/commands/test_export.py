"""The command ``lmzoo export``; tests/models/ngram has the ARPA files of single models."""

import json
import re
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command

from lmzoo.commands import export, vectors
from lmzoo.words.vectors.formats import read_vectors


@pytest.fixture
def ppmi(folder: Path) -> str:
    options = ["method=ppmi", "method.dim=4", "method.min_count=1", "run_dir=ppmi"]
    assert command(*TEXT, *options, main=vectors.main).code == 0
    return "ppmi"


def test_vectors_are_written_in_every_format(ppmi: str):
    for form in ("word2vec", "word2vec-text", "glove"):
        assert command(ppmi, form, "--format", form, main=export.main).err == f"{form}\n"
        torch.testing.assert_close(read_vectors(Path(form)).matrix, read_vectors(Path(ppmi)).matrix)
        assert command(form, "again", main=export.main).code == 0
        assert Path("again").read_bytes() == Path("ppmi/vectors.bin").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ppmi", "new", "--format", "arpa"], "ppmi holds word vectors; choose word2vec or word2vec-text or glove"),
        (["ppmi/vectors.bin", "new", "--format", "arpa"], "--format arpa: ppmi/vectors.bin is no ARPA file; choose"),
        (["ngram", "new", "--format", "glove"], "--format glove: ngram holds no word vectors; choose arpa"),
        (["rnn", "new"], "needs an n-gram model, a mixture per token of such models, or a run of lmzoo vectors"),
        (["ppmi", "ppmi/vectors.bin"], "is a part of the run"),
        (["ppmi/config.yaml", "new"], "not a file of word vectors"),
        (["ppmi", "new", "--prune", "1e-8"], "--prune: edits n-grams alone; give an n-gram model"),
        (["ppmi", "new", "--words", "words"], "--words: edits n-grams alone; give an n-gram model"),
        (["ngram", "new", "--prune", "-1"], "--prune -1: must be at least 0"),
        (["ngram", "new", "--words", "ppmi/config.yaml"], "--words: ppmi/config.yaml: line 1 is not one word"),
        (["ngram", "new", "--words", "absent"], "absent: no such file"),
        (["absent", "new"], "absent: not a run directory"),
        (["half", "new"], "half: has no vectors.bin; lmzoo vectors makes one"),
    ],
)
def test_what_cannot_be_exported_is_refused(ppmi: str, arguments: list[str], message: str):
    for name in {"ngram", "rnn"}.intersection(arguments):
        assert command(*TEXT, *QUICK, *MODELS[name], f"run_dir='{name}'").code == 0
    Path("half").mkdir()
    Path("half/config.yaml").write_bytes(Path("ppmi/config.yaml").read_bytes())
    assert message in command(*arguments, main=export.main).refused()
    assert not Path("new").exists()


def test_words_with_a_space_are_written_in_gloves_format_alone(folder: Path):
    Path("spaced").write_text("the 1 2\nNew York 3 4\nLos Angeles 5 6\n")
    for form in ("word2vec", "word2vec-text"):
        refused = command("spaced", "new", "--format", form, main=export.main).refused()
        assert "which ends a word in word2vec's formats: 2, such as 'New York'; choose --format glove, or" in refused
        assert not Path("new").exists()
    assert command("spaced", "new", "--format", "glove", main=export.main).code == 0
    assert read_vectors(Path("new")).words == ["the", "New York", "Los Angeles"]


def trained(name: str, *options: str) -> str:
    assert command(*TEXT, "corpus.context=sentence", *options, f"run_dir='{name}'").code == 0
    return name


def lines_of(file: str) -> dict[str, float]:
    """log10 p of each n-gram of an ARPA file."""
    rows = [line.split("\t") for line in Path(file).read_text().splitlines() if "\t" in line]
    return {row[1]: float(row[0]) for row in rows}


def test_n_grams_of_some_words_stay_as_they_are(folder: Path):
    trained("ngram", "model=ngram", "model.order=3", "model.unknown=true")
    assert command("ngram", "all.arpa", main=export.main).code == 0
    words = Path("ngram/vocabulary.txt").read_text().split()[1:8]
    Path("words").write_text("\n".join([*words, "foreign"]))
    outcome = command("all.arpa", "some.arpa", "--words", "words", main=export.main)
    whole, some = lines_of("all.arpa"), lines_of("some.arpa")
    allowed = {*words, "<s>", "</s>", "<unk>"}
    assert some == {ngram: p for ngram, p in whole.items() if allowed.issuperset(ngram.split())}
    share = sum(10**p for ngram, p in whole.items() if " " not in ngram and ngram not in allowed)
    types = {ngram for ngram in whole if " " not in ngram} - {"<s>"}
    assert f"{len(types - allowed)} of {len(types)} words are removed" in outcome.err
    assert f"with {share:.4f} of the unigram probability" in outcome.err
    assert "the model does not have 1 of the list's words" in outcome.err


def test_an_arpa_file_is_pruned_as_its_run_is(folder: Path):
    trained("ngram", "model=ngram", "model.order=3")
    for source, file in (("ngram", "all.arpa"), ("all.arpa", "again.arpa")):
        assert command(source, file, main=export.main).code == 0
    assert lines_of("again.arpa") == lines_of("all.arpa")
    sizes = []
    for source in ("ngram", "all.arpa"):
        outcome = command(source, "small.arpa", "--prune", "1e-4", main=export.main)
        sizes.append(outcome.err)
        assert len(lines_of("small.arpa")) < len(lines_of("all.arpa"))
    assert sizes[0] == sizes[1]
    trained("small", "model=arpa", "model.path=small.arpa")
    whole, small = (json.loads(Path(run, "results.json").read_text())["perplexity"] for run in ("ngram", "small"))
    assert whole["valid"] != small["valid"] == pytest.approx(whole["valid"], rel=0.1)


def test_a_mixture_is_one_file(folder: Path):
    trained("a", "model=ngram", "model.order=3")
    trained("b", "model=ngram", "model.order=2", "model.smoothing=absolute")
    assert command("b", "b.arpa", main=export.main).code == 0
    trained("c", "model=arpa", "model.path=b.arpa")
    files = []
    for name, parts in (("ab", "[a,b]"), ("ac", "[a,c]")):
        trained(name, "model=mixture", f"model.runs={parts}")
        assert command(name, f"{name}.arpa", main=export.main).code == 0
        files.append(lines_of(f"{name}.arpa"))
    assert files[0] == pytest.approx(files[1], abs=1e-5)
    trained("one", "model=arpa", "model.path=ab.arpa")
    one, dynamic = (json.loads(Path(run, "results.json").read_text())["perplexity"] for run in ("one", "ab"))
    assert one["test"] == pytest.approx(dynamic["test"], rel=0.02)
    trained("sentences", "model=mixture", "model.runs=[a,b]", "model.per=sentence")
    assert "needs an n-gram model, a mixture per token" in command("sentences", "x.arpa", main=export.main).refused()


def test_a_model_of_other_words_than_its_corpus_s_is_refused(folder: Path):
    trained("a", "model=ngram")
    assert command("a", "a.arpa", main=export.main).code == 0
    word = Path("a/vocabulary.txt").read_text().split()[1]
    text = Path("a.arpa").read_text()
    Path("b.arpa").write_text(re.sub(rf"(?<=[\t ]){word}(?=[\t \n])", "foreign", text))
    trained("b", "model=arpa", "model.path=b.arpa")
    refused = command("b", "new.arpa", main=export.main).refused()
    assert "b.arpa: it lacks 1 word of the corpus, which lacks 1 of its words; export the file" in refused
    assert command("b.arpa", "new.arpa", main=export.main).code == 0


def test_a_folder_for_transformers(folder: Path):
    pytest.importorskip("tokenizers")
    pytest.importorskip("safetensors")
    trained("lstm", *QUICK, *MODELS["lstm"])
    assert command("lstm", "hf", "--hf", main=export.main).err == "hf\n"
    assert command("lstm", "hf", "--hf", main=export.main).code == 0  # again in its place
    config = json.loads(Path("hf/config.json").read_text())
    assert config["lmzoo"]["context"] == "sentence"
    assert "lmzoo.huggingface.modeling" in Path("hf/modeling_lmzoo.py").read_text()
    lines = ["\\data\\", "ngram 1=2", "\\1-grams:", "-0.30103 a", "-0.30103 </s>", "\\end\\"]
    Path("tiny.arpa").write_text("\n".join(lines))
    result = command("tiny.arpa", "of-arpa", "--hf", main=export.main)
    assert (result.out, result.err) == ("of-arpa\n", "")
    Path("lost.arpa").write_text("\n".join(lines).replace("-0.30103 a", "-0.30643 a"))  # 0.4938
    told = "sum to 0.9938, not to 1; programs that normalize them give other figures than lmzoo"
    assert told in command("lost.arpa", "of-lost", "--hf", main=export.main).err


def test_no_folder_for_transformers(folder: Path):
    """What is refused without the packages of the extra."""
    for name, text in {"lines": "w1 w2\nw2 w1\n" * 3, "labels": "good\tw1 w2\nbad\tw2 w1\n" * 3}.items():
        Path(name).write_text(text)
    for name, option in {"lines": "reverse", "labels": "condition"}.items():
        texts = ["corpus=text", *(f"corpus.{split}={name}" for split in ("train", "valid", "test"))]
        options = [*texts, f"corpus.{option}=true", "corpus.context=sentence", *QUICK, *MODELS["rnn"]]
        assert command(*options, f"run_dir={name}-run").code == 0
    for arguments, message in {
        ("lines-run", "hf"): "lines-run: reads lines backwards (corpus.reverse=true)",
        ("labels-run", "hf"): "labels-run: has labels of its lines",
        ("lines-run", "hf", "--prune", "1e-8"): "--prune: edits n-grams alone",
        ("lines-run", "hf", "--format", "arpa"): "argument --hf: not allowed with argument --format",
        ("lines-run", "lines"): "lines: cannot be written (is not a folder)",
        ("lines-run", "absent/hf"): "absent/hf: cannot be written (no such folder)",
        ("lines-run", "lines-run"): "lines-run: contains other files, and no exported model",
    }.items():
        assert message in command(*arguments, "--hf", main=export.main).refused()
