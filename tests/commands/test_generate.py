"""The generate command: sentences of a trained model."""

import shutil
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command

from lmzoo.commands import generate
from lmzoo.protocol.sampling import Decoding, beam_search, sample
from lmzoo.runs.loading import load


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert command(*TEXT, *QUICK, *MODELS["vlhmm"], "corpus.context=sentence", f"run_dir={folder}").code == 0
    return folder


def test_the_command_prints_a_sentence_a_line(run: Path):
    model, vocabulary = load(run)
    prompt = torch.tensor([2, 3])
    options = ["--seed", "3", "--temperature", "0.5", "--prompt", f"{vocabulary.words[2]}  {vocabulary.words[3]}"]
    text = command(str(run), "--tokens", "30", *options, main=generate.main).out
    drawn = sample(model, 30, 3, context="sentence", decoding=Decoding(temperature=0.5), prompt=prompt).tokens[0]
    words = [*prompt.tolist(), *drawn.tolist()]
    assert words.count(0) > 1
    assert [line.split() for line in text.splitlines()] == [
        line.replace("<eos>", "").split() for line in vocabulary.decode(words).splitlines()
    ]
    assert text != command(str(run), "--tokens", "30", main=generate.main).out


def test_texts_with_their_scores(run: Path):
    model, vocabulary = load(run)
    drawn = sample(model, 12, 0, context="sentence", decoding=Decoding(top_k=3), samples=2)
    out = command(str(run), "--tokens", "12", "--samples", "2", "--top-k", "3", "--scores", main=generate.main).out
    blocks = [[line.split("\t") for line in block.splitlines()] for block in out.split("\n\n")]
    assert len(blocks) == 2
    for block, tokens, logprobs in zip(blocks, drawn.tokens, drawn.logprobs, strict=True):
        words = " ".join(text for _, text in block).split()
        assert words == vocabulary.decode(tokens.tolist()).replace("<eos>", "").split()
        assert sum(float(score) for score, _ in block) == pytest.approx(float(logprobs.sum()), abs=1e-3 * len(block))


def test_the_likeliest_sentences_and_which_of_them_are_cut(run: Path):
    model, vocabulary = load(run)
    found = beam_search(model, 4, 10)
    cut = [sentence.tokens[-1] != 0 for sentence in found]
    assert 0 < sum(cut) < 4
    done = command(str(run), "--tokens", "10", "--beam", "4", "--scores", main=generate.main)
    assert [line.split("\t") for line in done.out.splitlines()] == [
        [f"{sentence.logprob:.4f}", vocabulary.decode(sentence.tokens).removesuffix("<eos>").rstrip() + " …" * is_cut]
        for sentence, is_cut in zip(found, cut, strict=True)
    ]
    assert f"{sum(cut)} of 4 sentences, marked with …, are truncated at --tokens 10" in done.err


def test_whole_sentences_and_rules(run: Path):
    model, vocabulary = load(run)
    decoding = Decoding(temperature=0.7)
    drawn = sample(model, None, 4, context="sentence", decoding=decoding, samples=2, sentences=3).each()
    options = ["--sentences", "3", "--samples", "2", "--seed", "4", "--temperature", "0.7"]
    lines = command(str(run), *options, main=generate.main).out.splitlines()
    assert [len(lines), lines[3]] == [7, ""]
    for text, (tokens, _) in zip((lines[:3], lines[4:]), drawn, strict=True):
        assert [line.split() for line in text] == [
            line.removesuffix("<eos>").split() for line in vocabulary.decode(tokens.tolist()).split("\n")
        ]


def test_an_unknown_word_of_a_prompt_is_read_as_unk(tmp_path: Path):
    (tmp_path / "text").write_text("a a b b\nb a c\n" * 3)
    files = [f"corpus.{split}={tmp_path / 'text'}" for split in ("train", "valid", "test")]
    text = ["corpus=text", *files, "corpus.min_count=4"]
    assert command(*text, *MODELS["ngram"], "device=cpu", f"run_dir={tmp_path / 'run'}").code == 0
    told = command(str(tmp_path / "run"), "--tokens", "1", "--prompt", "nowhere", main=generate.main)
    assert told.out.split()[0] == "<unk>"
    assert "nowhere: read as <unk>" in told.err
    told = command(str(tmp_path / "run"), "--no-unknown", "--tokens", "300", main=generate.main)
    assert set(told.out.split()) == {"a", "b"}
    assert "<unk>" in command(str(tmp_path / "run"), "--tokens", "300", main=generate.main).out


def test_a_run_that_is_not_finished_is_called_so(run: Path, tmp_path: Path):
    unfinished = shutil.copytree(run, tmp_path / "unfinished")
    assert not command(str(unfinished), "--tokens", "1", main=generate.main).err
    (unfinished / "results.json").unlink()
    assert "training is not finished" in command(str(unfinished), "--tokens", "1", main=generate.main).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "0"], "--tokens 0: must be at least 1"),
        (["--tokens", "9" * 4300], "…: must be at most 2147483647"),
        (
            ["--temperature", "0"],
            "--temperature=0.0: must be positive and finite; --top-k 1 chooses the most likely word",
        ),
        (["--temperature", "nan"], "--temperature=nan: must be positive and finite"),
        (["--seed", "-1"], "--seed -1: must be at least 0"),
        (["--temperature", "inf"], "--temperature=inf: must be positive and finite"),
        (["--prompt", "w1 nowhere"], "--prompt, line 1: 'nowhere' is not in the vocabulary, which has no <unk>; "),
        (["--prompt", "w1\nw2"], "--prompt, line 1: is not one line of text; give each line by itself"),
        (["--prompt", "<eos>"], "--prompt, line 1: <eos> is added at the end of each line; "),
        (["--samples", "0"], "--samples 0: must be at least 1"),
        (["--top-k", "0"], "--top-k 0: must be at least 1"),
        (["--top-p", "1.5"], "--top-p=1.5: must be above 0 and at most 1"),
        (["--beam", "0"], "--beam 0: must be at least 1"),
        (["--beam", "2", "--top-k", "3"], "--beam does not sample; leave out"),
        (["--beam", "2", "--sentences", "3"], "--beam does not sample; leave out"),
        (["--beam", "2", "--seed", "3"], "--beam does not sample; leave out"),
        (["--pattern", "…", "--tokens", "3"], "leave out --sentences and --condition, and --tokens unless"),
        (["--tokens", "2", "--sentences", "3"], "--sentences: not allowed with argument --tokens"),
        (["--words", "3"], "unrecognized arguments: --words 3; see --help"),
        (["--topk", "3"], "unrecognized arguments: --topk 3; did you mean '--top-k'?"),
        (["w1 w2"], "unrecognized arguments: w1 w2; is it text for --prompt?"),
    ],
)
def test_mistakes_of_the_command(run: Path, arguments: list[str], message: str):
    assert message in command(str(run), *arguments, main=generate.main).refused()


def test_a_folder_that_is_no_run(tmp_path: Path):
    told = "not a run directory (it has no config.yaml); lmzoo compare lists the runs"
    assert told in command(str(tmp_path), main=generate.main).refused()


def test_a_beam_that_fills_the_memory_is_refused_with_the_limit(run: Path):
    line = command(str(run), "--beam", "100000000", main=generate.main).refused()
    assert "a beam of 100000000: must be at most 6,391,320, as the model has 21 words" in line
