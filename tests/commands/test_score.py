"""Scores of the words and lines of a text."""

import csv
import json
import math
import sys
from pathlib import Path

import pytest
import torch
from command_line import command
from predictions import TRAIN, by_hand

import lmzoo
from lmzoo.commands import compare, evaluate, score
from lmzoo.protocol.lines import Lines


@pytest.fixture(scope="module")
def unigram(run: Path) -> Path:
    """Frequencies of the same words."""
    files = [f"corpus.{split}={run.parent / 'text'}" for split in ("train", "valid")]
    model = ["model=ngram", "model.order=1", "model.smoothing=witten_bell", "corpus.min_count=2"]
    assert command("corpus=text", *files, *model, "device=cpu", f"run_dir={run.parent / 'unigram'}").code == 0
    return run.parent / "unigram"


@pytest.mark.parametrize(("unit", "nat"), [([], 1.0), (["--bits"], 1.442695), (["--log10"], 0.4342945)])
def test_each_word_has_its_probability(run: Path, tmp_path: Path, unit: list[str], nat: float):
    (tmp_path / "text").write_text("the zebra ran\n\na dog\n")
    done = command(str(run), str(tmp_path / "text"), "--context", "sentence", *unit, main=score.main)
    header, _, rows = done.out.strip("\n").partition("\n")
    assert header.split("\t") == ["word", "logprob", "known"]
    blocks = [[row.split("\t") for row in block.split("\n")] for block in rows.split("\n\n")]
    lines = ["the zebra ran", "", "a dog"]
    assert [[word for word, _, _ in block] for block in blocks] == [[*line.split(), "<eos>"] for line in lines]
    for block, line in zip(blocks, lines, strict=True):
        expected = [nat * value for value in by_hand(run, line)]
        assert [float(value) for _, value, _ in block] == pytest.approx(expected, abs=1e-4)
    assert [known for _, _, known in blocks[0]] == ["true", "false", "false", "true"]
    total = sum(sum(by_hand(run, line)) for line in lines)
    known = total - sum(by_hand(run, "the zebra ran")[1:3])
    assert f"8 tokens in 3 lines: log p {total * nat:.4f}" in done.err
    assert f"perplexity {math.exp(-total / 8):.2f}; without 2 unknown words {known * nat:.4f}, " in done.err
    ppl, ppl1 = math.exp(-known / 6), math.exp(-known / 3)
    assert done.err.endswith(f", {ppl:.2f} (ppl; ppl1, which counts no ends of lines: {ppl1:.2f})\n")


def test_a_perplexity_that_no_number_can_be_is_infinite():
    sums, known = score.Sums(), torch.ones(2, dtype=torch.bool)
    sums.add(Lines([["a", "<eos>"]], torch.tensor([1, 0]), torch.full((2,), -750.0).double(), known))
    told = sums.summary("nats")
    assert "perplexity inf; without 0 unknown words -1500.0000, inf (ppl;" in told


@pytest.mark.parametrize("context", ["sentence", "stream"])
def test_a_table_has_what_is_expected_of_each_word(run: Path, tmp_path: Path, context: str):
    (tmp_path / "text").write_text("the zebra ran\n\na dog\n")
    file = tmp_path / "table.tsv"
    done = command(str(run), str(tmp_path / "text"), "--context", context, "--table", str(file), main=score.main)
    assert (done.code, done.out) == (0, "")
    header, *rows = [line.split("\t") for line in file.read_text().splitlines()]
    assert header == ["run", "sentence", "position", "word", "known", "surprisal", "entropy", "rank", "log_frequency"]
    assert {row.pop(0) for row in rows} == {"run"}
    words = ["the", "zebra", "ran", "<eos>", "<eos>", "a", "dog", "<eos>"]
    assert [row[:4] for row in rows] == [
        [*place.split(), word, str(word not in ("zebra", "ran")).lower()]
        for place, word in zip(["1 1", "1 2", "1 3", "1 4", "2 1", "3 1", "3 2", "3 3"], words, strict=True)
    ]
    model, vocabulary = lmzoo.load(run)
    train, state = TRAIN.replace("ran", "<unk>").replace("\n", " <eos> ").split(), model.initial_state(1)
    for word, row in zip(words, rows, strict=True):
        p = model.predict(state)[0].double().exp()
        own = float(p[vocabulary.index.get(word, vocabulary.index["<unk>"])])
        entropy = -sum(q * math.log2(q) for q in p.tolist())
        share = (train.count(word if word in vocabulary.index else "<unk>") + 1) / (len(train) + len(vocabulary))
        expected = [-math.log2(own), entropy, 1 + int((p > own).sum()), math.log2(share)]
        assert [float(cell) for cell in row[4:]] == pytest.approx(expected, abs=1e-4)
        _, state = model(vocabulary.encode([word])[:1][None] if word != "<eos>" else torch.zeros(1, 1).long(), state)
        state = model.initial_state(1) if word == "<eos>" and context == "sentence" else state


def read_table(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="," if file.suffix == ".csv" else "\t"))


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_several_runs_are_one_long_table_with_the_words_before(run: Path, unigram: Path, tmp_path: Path, suffix: str):
    (tmp_path / "text").write_text('the zebra " ran\na, dog\n')
    file, runs = tmp_path / f"table.{suffix}", {"run": run, "unigram": unigram}
    options = [str(tmp_path / "text"), "--context", "sentence", "--table", str(file), "--spillover"]
    done = command(*map(str, runs.values()), *options, main=score.main)
    assert done.code == 0, done
    rows = read_table(file)
    words = [["the", "zebra", '"', "ran", "<eos>"], ["a,", "dog", "<eos>"]]
    expected = [
        (name, str(number), str(place), word)
        for name in runs
        for number, line in enumerate(words, 1)
        for place, word in enumerate(line, 1)
    ]
    assert [tuple(row[name] for name in ("run", "sentence", "position", "word")) for row in rows] == expected
    at = {tuple(row[name] for name in ("run", "sentence", "position")): row for row in rows}
    for name, folder in runs.items():
        for number, line in enumerate(words, 1):
            bits = [-value / math.log(2) for value in by_hand(folder, " ".join(line[:-1]))]
            for place, value in enumerate(bits, 1):
                row = at[name, str(number), str(place)]
                assert float(row["surprisal"]) == pytest.approx(value, abs=1e-4)
                for back in (1, 2):
                    before = at.get((name, str(number), str(place - back)))
                    assert row[f"surprisal_{back}"] == ("NA" if before is None else before["surprisal"])
    assert [line.split(": ")[0] for line in done.err.splitlines()] == [*runs]


def test_runs_with_different_vocabularies_in_one_table_are_warned_of(run: Path, tmp_path: Path):
    files = [f"corpus.{split}={run.parent / 'text'}" for split in ("train", "valid")]
    fewer = ["corpus=text", *files, "corpus.max_size=5", "model=ngram", "model.order=1"]
    assert command(*fewer, "device=cpu", f"run_dir={tmp_path / 'fewer'}").code == 0
    (tmp_path / "text").write_text("the dog\n")
    done = command(str(run), str(tmp_path / "fewer"), str(tmp_path / "text"), "--table", str(tmp_path / "t.csv"),
                   main=score.main)  # fmt: skip
    problem = "the runs have different vocabularies; one with fewer words reads more as <unk>, which lowers its figures"
    assert f"warning: {problem}" in done.err.splitlines()
    assert f"warning: {problem}" in command(str(run), str(tmp_path / "fewer"), "--sentence", "the zebra",
                                            main=compare.main).err.splitlines()  # fmt: skip


def test_runs_in_one_table_read_the_same_words(run: Path, unigram: Path, tmp_path: Path):
    (tmp_path / "text").write_text("the dog\n")
    asked = [str(run), str(unigram)]
    several = [*asked, str(tmp_path / "text")]
    for wrong, message in (
        (several, "2 runs are named; add --table FILE"),
        ([*several, "--table", "words.txt"], "--table words.txt: ends neither in .csv nor in .tsv"),
        ([*asked, "-", "--table", "t.csv"], "2 runs are named, and standard input can be read once"),
        ([str(run), "--spillover"], "--spillover: needs --table; add --table, or leave --spillover out"),
    ):
        assert message in command(*wrong, main=score.main).refused()
    files = [f"corpus.{split}={run.parent / 'text'}" for split in ("train", "valid")]
    assert command("corpus=text", *files, "corpus.unit=char", "model=ngram", "model.order=1", "model.smoothing=mle",
                   "device=cpu", f"run_dir={tmp_path / 'chars'}").code == 0  # fmt: skip
    table = ["--table", str(tmp_path / "t.csv")]
    refused = command(str(run), str(tmp_path / "chars"), several[-1], *table, main=score.main)
    assert refused.code == 2
    assert f"{tmp_path / 'chars'}: reads other words than {run}" in refused.err
    assert not (tmp_path / "t.csv").exists()


@pytest.mark.parametrize(("option", "column"), [([], 0), (["--sums"], 4)])
def test_a_word_with_a_quote_is_a_cell_of_its_own(run: Path, tmp_path: Path, option: list[str], column: int):
    """R and pandas take what follows such a cell for a part of it, unless it is in quotes."""
    lines = ['"', '" a 7" dog "', '"the', "the dog"]
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    out = command(str(run), str(tmp_path / "text"), *option, main=score.main).out
    _, *rows = filter(None, csv.reader(out.splitlines(), delimiter="\t"))
    expected = lines if column == 4 else [word for line in lines for word in [*line.split(), "<eos>"]]
    assert [row[column] for row in rows] == expected


def test_sums_are_those_of_evaluate(run: Path, tmp_path: Path):
    (tmp_path / "text").write_text(TRAIN + "a zebra saw the dog\n")
    text = [str(run), str(tmp_path / "text")]
    for context in ("stream", "sentence"):
        header, *rows = command(*text, "--context", context, "--sums", main=score.main).out.splitlines()
        assert header == "logprob\tlogprob_of_known\ttokens\tunknown\ttext"
        whole = evaluate.evaluate(run, text[1], context)  # pyright: ignore[reportArgumentType]
        assert sum(float(row.split("\t")[0]) for row in rows) == pytest.approx(whole["logprob"], abs=1e-3)
        assert rows[-1].split("\t")[2:] == ["6", "1", "a zebra saw the dog"]
        entries = [
            json.loads(line)
            for line in command(*text, "--json", "--context", context, main=score.main).out.splitlines()
        ]
        for entry, row in zip(entries, rows, strict=True):
            assert f"{entry['logprob']:.4f}" == row.split("\t")[0]
            assert sum(word["logprob"] for word in entry["words"]) == pytest.approx(entry["logprob"])
            known = sum(word["logprob"] for word in entry["words"] if word["known"])
            assert known == pytest.approx(entry["logprob_of_known"])


def test_every_line_has_its_own_score(run: Path, tmp_path: Path):
    (tmp_path / "text").write_text("the dog  saw\n\na\n")
    asked = [str(run), str(tmp_path / "text"), "--context", "sentence", "--sums"]
    lines = [json.loads(line) for line in command(*asked, "--json", main=score.main).out.splitlines()]
    assert [line["text"] for line in lines] == ["the dog saw", "", "a"]
    assert [line["tokens"] for line in lines] == [4, 1, 2]
    alone = []
    for row in ("the dog saw", "a"):
        (tmp_path / "alone").write_text(f"{row}\n")
        alone.append(evaluate.evaluate(run, str(tmp_path / "alone"), "sentence", "cpu")["logprob"])
    assert [line["logprob"] for line in lines if line["text"]] == pytest.approx(alone, rel=1e-6)
    rows = command(*asked, main=score.main).out.splitlines()
    assert rows[3] == f"{lines[2]['logprob']:.4f}\t{lines[2]['logprob']:.4f}\t2\t0\ta"


def calls(run: Path, text: Path, *options: str) -> int:
    """How many functions, of Python and of C, a command calls that scores a text."""
    seen = []
    sys.setprofile(lambda frame, event, argument: seen.append(event) if event.endswith("call") else None)
    try:
        command(str(run), str(text), *options, main=score.main)
    finally:
        sys.setprofile(None)
    return len(seen)


@pytest.mark.parametrize("options", [[], ["--sums"]])
def test_a_line_takes_few_calls_and_a_word_none(options: list[str], run: Path, tmp_path: Path):
    texts = {
        "first": "the\n",
        "short": 100 * "the dog\n",
        "many": 300 * "the dog\n",
        "long": 100 * f"{100 * 'the dog '}\n",
    }
    taken = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        taken[name] = calls(run, tmp_path / name, *options)
    assert taken["many"] - taken["short"] < 12 * 200, taken
    assert taken["long"] - taken["short"] < 0.05 * 19_800, taken


def test_a_split_is_scored_as_its_file_is(run: Path):
    """Its words are those of the vocabulary, so that a rare word is <unk>."""
    file, split = str(run.parent / "text"), "test"
    for options in ([], ["--json"], ["--sums"], ["--sums", "--json"], ["--sums", "--context", "sentence"]):
        of_file, of_split = (command(str(run), text, *options, main=score.main) for text in (file, split))
        assert of_split.out == of_file.out.replace("ran", "<unk>")
        assert of_split.out.count("<unk>") == 1
        assert of_file.err.endswith(of_split.err)
    refused = command(str(run), split, "--tokenize", "words", main=score.main).refused()
    assert "--tokenize: test is a split, which is tokenized already; leave it out" in refused


def test_a_line_is_read_alone_or_after_those_before_it(runs: list[str], tmp_path: Path):
    lm = lmzoo.load(runs[1])  # a recurrent network, which remembers
    line = lm.vocabulary.decode([3, 5, 4])
    (tmp_path / "text").write_text(f"{line}\n{line}\n")
    asked = [runs[1], str(tmp_path / "text"), "--sums", "--context"]
    alone, after = (
        command(*asked, context, main=score.main).out.splitlines()[1:] for context in ("sentence", "stream")
    )
    assert alone[0] == alone[1] == after[0] != after[1]


def test_lines_that_are_scored_as_one_stream_have_a_warning(runs: list[str], run: Path, tmp_path: Path, caplog):
    """Once, and only where a line was given the one before it without being asked for."""
    advice = "lines are scored as one stream; {} scores each by itself"
    two, one, simple = (tmp_path / name for name in ("two", "one", "simple"))
    words = lmzoo.load(runs[1]).vocabulary.words
    two.write_text(f"{words[1]} {words[2]}\n{words[2]}\n")
    one.write_text(f"{words[1]}\n")
    simple.write_text("the dog\na cat\n")
    for form in ([], ["--sums"], ["--table", str(tmp_path / "table.csv")], ["--json"]):
        warning = f"warning: {advice.format('--context sentence')}\n"
        assert command(runs[1], str(two), *form, main=score.main).err.count(warning) == 1
        for given in ([runs[1], str(two), "--context", "sentence"], [runs[1], str(two), "--context", "stream"],
                      [runs[1], str(one)], [runs[1], "test"], [str(run), str(simple)]):  # fmt: skip
            assert "as one stream" not in command(*given, *form, main=score.main).err
            assert "as one stream" not in command(*given, main=evaluate.main).err
    assert command(runs[1], str(two), main=evaluate.main).err.count(warning) == 1
    for lm, text, context in (
        (runs[1], two, "stream"), (runs[1], two, "sentence"), (runs[1], one, None), (runs[1], "test", None),
        (str(run), simple, None), (runs[1], two, None),
    ):  # fmt: skip
        assert not caplog.messages
        lmzoo.load(lm).perplexity(text, context)
    assert caplog.messages == [advice.format('context="sentence"')]


def test_an_impossible_word_is_null_in_json(tmp_path: Path, run: Path):
    (tmp_path / "text").write_text(TRAIN)
    files = [f"corpus.{split}={tmp_path / 'text'}" for split in ("train", "valid", "test")]
    mle = ["corpus=text", *files, "model=ngram", "model.order=2", "model.smoothing=mle", f"run_dir={tmp_path / 'mle'}"]
    assert command(*mle, "device=cpu").code == 0
    (tmp_path / "new").write_text("dog the\n")
    done = command(str(tmp_path / "mle"), str(tmp_path / "new"), "--json", main=score.main)
    assert json.loads(done.out)["logprob"] is None
    assert "perplexity inf" in done.err


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("a <eos>\n", [], "line 1: <eos> is added at the end of each line"),
        ("", [], "empty"),
        ("a\n", ["--bits", "--log10"], "--log10: not allowed with argument --bits"),
    ],
)
def test_mistakes(run: Path, tmp_path: Path, text: str, more: list[str], message: str):
    (tmp_path / "text").write_text(text)
    assert message in command(str(run), str(tmp_path / "text"), *more, main=score.main).refused()
