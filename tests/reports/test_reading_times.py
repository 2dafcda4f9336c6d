"""Reading times and surprisal: regressions and whole words beside independent computations."""

import csv
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import QUICK, TEXT, command
from reading_times import table, times_of
from scipy.stats import norm

from lmzoo import api
from lmzoo.commands import reading
from lmzoo.core.errors import UserError
from lmzoo.protocol.prediction import at_each_token, entropy_and_rank
from lmzoo.reports.reading import Times, comparable_words, gain, surprisal, unigram_surprisal

# The surprisal of whole words


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> api.Loaded:
    """A bigram model of a text of one's own, each line by itself."""
    folder = tmp_path_factory.mktemp("words")
    (folder / "text").write_text("a b , c\nb a . a\nc c b , a b\n" * 9)
    options = [
        "corpus=text",
        f"corpus.train={folder}/text",
        f"corpus.valid={folder}/text",
        "corpus.context=sentence",
        "corpus.unknown=true",
    ]
    return api.train(*options, "model=ngram", "model.order=2", "model.smoothing=witten_bell", f"run_dir={folder}/run")


@pytest.fixture(scope="module")
def characters(tmp_path_factory: pytest.TempPathFactory) -> api.Loaded:
    """A trigram model of characters."""
    folder = tmp_path_factory.mktemp("characters")
    (folder / "text").write_text("a ab b\nb ba\nab a aa\nbb b\n" * 9)
    options = ["corpus=text", f"corpus.train={folder}/text", f"corpus.valid={folder}/text", "corpus.context=sentence"]
    options += [
        "corpus.unknown=true",
        "corpus.unit=char",
        "model=ngram",
        "model.smoothing=witten_bell",
        "model.order=3",
    ]
    return api.train(*options, f"run_dir={folder}/run")


def apart(word: str) -> str:
    return word.replace(",", " ,").replace(".", " .")


def test_a_word_has_the_bits_of_all_that_is_read_for_it(words: api.Loaded):
    times = times_of([["a", "b,", "zzz"], ["c."]], [["-b", "c"]])
    found = surprisal(words.model, words.vocabulary, times, "sentence", lambda word: apart(word).replace("-", ""))
    expected = [dict(enumerate(bits for _, bits in words.surprisal(line))) for line in ("a b , zzz", "c .", "b c")]
    first, second, third = expected
    assert found.bits == pytest.approx(
        [first[0], first[1] + first[2], first[3], second[0] + second[1], third[0], third[1]]
    )
    assert found.known.tolist() == [True, True, False, True, True, True]


def test_texts_do_not_know_of_each_other_and_sentences_of_a_stream_do(trained_stream: api.Loaded):
    lm, vocabulary = trained_stream
    one, two = [["w1", "w2"], ["w3"]], [["w1", "w2"]]
    found = surprisal(lm, vocabulary, times_of(one, two), "stream").bits
    assert found[:2] == pytest.approx(found[3:])
    alone = surprisal(lm, vocabulary, times_of([["w3"]]), "stream").bits
    assert found[2] != pytest.approx(alone[0], rel=1e-6)


@pytest.fixture(scope="module")
def trained_stream(tmp_path_factory: pytest.TempPathFactory) -> api.Loaded:
    folder = tmp_path_factory.mktemp("stream")
    return api.train(*TEXT, *QUICK, "model=lstm", "model.embedding=8", "model.hidden=8", f"run_dir={folder}/run")


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def pieces(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> api.Loaded:
    """A trigram model of pieces of words, some of which are bytes."""
    pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("pieces")
    (folder / "text").write_text("ab abab ba\nbab ab\nab abba abab\nbaba ba é\n" * 9)
    options = ["corpus=text", f"corpus.train={folder}/text", f"corpus.valid={folder}/text", "corpus.context=sentence"]
    options += [f"corpus.unit={request.param}", "corpus.subwords=266", "model=ngram", "model.smoothing=witten_bell"]
    return api.train(*options, "model.order=3", f"run_dir={folder}/run")


def probability(lm: api.Loaded, words: tuple[str, ...], over: bool) -> float:
    """p that a line begins with these words; and that the last one ends there, if ``over``."""
    text, vocabulary = " ".join(words), lm.vocabulary
    state, total = lm.model.initial_state(1), 0.0
    for token in vocabulary.encode([text])[:-1] if words else []:
        total += float(lm.model.predict(state)[0, token])
        state = lm.model(token[None, None], state)[1]
    follows = [number for number, name in enumerate(vocabulary.words) if name[0] == "▁" or name in ("<space>", "<eos>")]
    ends = lm.model.predict(state)[0, follows]
    return math.exp(total + float(ends.logsumexp(0)) * over)


def test_a_word_of_characters_has_the_share_of_lines_that_go_on_with_it(characters: api.Loaded):
    line = ("a", "ab", "ba")
    bits = surprisal(characters.model, characters.vocabulary, times_of([[*line]]), "sentence").bits
    for k in range(3):
        begun = probability(characters, line[:k], over=True) if k else 1.0
        assert bits[k] == pytest.approx(-math.log2(probability(characters, line[: k + 1], over=True) / begun), rel=1e-5)


def test_a_word_of_pieces_has_the_share_of_lines_that_go_on_with_it(pieces: api.Loaded):
    line = ("abab", "aé", "ba", "b")
    assert max(len(pieces.vocabulary.encode([word])) for word in line) > 3  # several pieces and the end
    found = surprisal(pieces.model, pieces.vocabulary, times_of([[*line]], [["ba"], ["ab"]]), "sentence")
    assert found.known.all()
    for k in range(4):
        shares = [probability(pieces, line[:n], over=True) for n in (k, k + 1)]
        assert found.bits[k] == pytest.approx(-math.log2(shares[1] / shares[0]), rel=1e-5)
    assert found.bits[4:] == pytest.approx(
        [-math.log2(probability(pieces, (word,), True) / probability(pieces, (), True)) for word in ("ba", "ab")],
        rel=1e-5,
    )


def test_the_words_that_may_follow_and_the_end_have_probability_one(characters: api.Loaded):
    lengths = [["".join(letters) for letters in itertools.product("ab", repeat=n)] for n in range(1, 8)]
    p = 0.0
    for word in itertools.chain(*lengths):
        p += 2 ** -surprisal(characters.model, characters.vocabulary, times_of([["ab", word]]), "sentence").bits[1]
    begun = probability(characters, ("ab",), over=True)
    ends = math.exp(characters.score("ab")) / begun
    longer = sum(probability(characters, ("ab", word), over=False) for word in lengths[-1]) / begun
    after_longest = sum(probability(characters, ("ab", word), over=True) for word in lengths[-1]) / begun
    strange = 1 - p - ends - (longer - after_longest)  # a space after a space, which no line of the text has
    assert 0 <= strange < 0.05


# What is expected at each token


@pytest.mark.parametrize("context", ["sentence", "stream"])
def test_entropy_and_rank_are_those_of_each_prefix(trained_stream: api.Loaded, context):
    model, vocabulary = trained_stream
    lines = [vocabulary.encode([text]) for text in ("w3 w1", "w2", "w4 w4 w0 w7")]
    found = at_each_token(model, lines, context, entropy_and_rank)
    expected, before = [], torch.zeros(0, dtype=torch.int64)
    for line in lines:
        before = before if context == "stream" else before[:0]
        for token in line:
            state = model.initial_state(1)
            if len(before):
                _, state = model(before[None], state)
            p = model.predict(state)[0].detach().double().exp()
            expected.append([-sum(q * math.log2(q) for q in p.tolist()), 1 + sum(q > p[token] for q in p)])
            before = torch.cat([before, token[None]])
    torch.testing.assert_close(found, torch.tensor(expected).double(), rtol=1e-4, atol=1e-4)


def test_what_is_impossible_adds_nothing_to_the_entropy():
    logprobs = torch.tensor([[0.5, 0.5, 0.0]]).log()
    assert entropy_and_rank(logprobs, torch.tensor([2]))[0].tolist() == pytest.approx([1.0, 3.0], rel=1e-8)


# The regression


def made_up(stories: int = 12, words: int = 150) -> tuple[Times, np.ndarray, np.ndarray]:
    """Words whose times follow from their length, their rarity and the surprisal of this and the last word."""
    random = np.random.default_rng(1)
    n = stories * words
    shown = ["x" * int(length) for length in random.integers(1, 9, n)]
    rare, bits = random.gamma(4, 2, n), random.gamma(3, 2, n)
    last = np.concatenate([[0], bits[:-1]])
    times = 200 + 5 * np.array(list(map(len, shown))) + 2 * rare + 4 * bits + 3 * last + random.normal(0, 20, n)
    of_story = np.repeat(np.arange(stories), words)
    return Times(shown, of_story, of_story, times), rare, bits


def test_the_gain_is_that_of_regressions_written_out():
    times, rare, bits = made_up()
    rows = comparable_words(times, np.ones(len(bits), dtype=bool), edges=True)
    found = gain(times, rare, bits, rows)
    length, gains = [len(word) for word in times.words], []
    places = [i for i in range(len(bits)) if i % 150 >= 2]
    assert np.flatnonzero(rows).tolist() == places

    def columns(i: int, whole: bool) -> list[float]:
        kinds = [length, rare, bits] if whole else [length, rare]
        return [1.0, *(kind[i - lag] for kind in kinds for lag in range(3))]

    for fold in range(10):
        new = [i for i in places if i // 150 % 10 == fold]
        seen = [i for i in places if i // 150 % 10 != fold]
        likelihoods = []
        for whole in (True, False):
            X, y = np.array([columns(i, whole) for i in seen]), times.times[seen]
            weights = np.linalg.solve(X.T @ X, X.T @ y)
            scale = math.sqrt(np.mean((y - X @ weights) ** 2))
            means = np.array([columns(i, whole) for i in new]) @ weights
            likelihoods.append(norm.logpdf(times.times[new], means, scale).sum())
        gains.append(likelihoods[0] - likelihoods[1])
    assert found.nats == pytest.approx(sum(gains) / len(places))
    assert found.slope == pytest.approx(4, abs=0.5)
    assert found.low < found.nats < found.high


def test_the_interval_is_as_wide_as_the_gains_vary():
    times, rare, bits = made_up()
    rows = comparable_words(times, np.ones(len(bits), dtype=bool), edges=True)
    nothing = gain(times, rare, np.random.default_rng(5).gamma(3, 2, len(bits)), rows)
    assert nothing.low < 0 < nothing.high
    assert abs(nothing.nats) < 0.01
    assert gain(times, rare, bits, rows).low > 0.05
    with pytest.raises(UserError, match="all reading times are 300, which leaves nothing to predict"):
        gain(times._replace(times=np.full(len(bits), 300.0)), rare, bits, rows)


def test_folds_are_of_the_texts_that_are_there_and_need_enough_words():
    times, rare, bits = made_up()
    rows = comparable_words(times, np.ones(len(bits), dtype=bool), edges=True)
    found = gain(times, rare, bits, rows)
    apart = gain(times._replace(stories=10 * times.stories), rare, bits, rows)
    assert apart.each.tolist() == found.each.tolist()
    short = np.where(np.arange(len(bits)) < 20, 0, 1)
    with pytest.raises(UserError, match="too few for a regression on all but a fold"):
        gain(times._replace(stories=short), rare, bits, rows)


def test_words_after_one_that_is_not_known_are_left_out():
    times = Times(list("abcdefg"), np.array([0, 0, 0, 0, 0, 1, 1]), np.zeros(7), np.array([1, 1, 1, np.nan, 1, 1, 1]))
    assert comparable_words(times, np.array([1, 1, 1, 1, 1, 1, 1], dtype=bool), edges=True).tolist() == [
        False,
        False,
        True,
        False,
        True,
        False,
        False,
    ]
    known = np.array([1, 0, 1, 1, 1, 1, 1], dtype=bool)
    assert comparable_words(times, known, edges=True).tolist() == [False] * 4 + [True, False, False]


def test_first_and_last_words_of_sentences_are_left_out_unless_asked_for():
    times = times_of([["a", "b", "c", "d"], ["e"], ["f", "g", "h"]], [["i", "j", "k"]])
    known = np.ones(11, dtype=bool)
    assert [times.words[i] for i in np.flatnonzero(comparable_words(times, known))] == ["c", "g"]
    assert [times.words[i] for i in np.flatnonzero(comparable_words(times, known, edges=True))] == [*"cdefgh", "k"]


def test_gains_are_compared_word_by_word():
    """Of independent words the interval is that of the normal distribution; of models that agree it is narrow."""
    times, rare, bits = made_up()
    rows = comparable_words(times, np.ones(len(bits), dtype=bool), edges=True)
    random = np.random.default_rng(3)
    noisy, noisier = (gain(times, rare, bits + random.normal(0, scale, len(bits)), rows) for scale in (1, 2))
    found, low, high = noisy.difference_from(noisier)
    each = noisy.each - noisier.each
    assert found == pytest.approx(noisy.nats - noisier.nats) == pytest.approx(each.mean())
    assert [low, high] == pytest.approx(norm.interval(0.95, found, each.std() / math.sqrt(len(each))), rel=0.1)
    assert low > 0
    assert high - low < noisy.high - noisy.low
    assert noisier.difference_from(noisy) == pytest.approx((-found, -high, -low))


def test_rarity_is_the_share_of_a_text(words: api.Loaded):
    train = words.run.split("train").tokens
    index, V = words.vocabulary.index, len(words.vocabulary)
    found = unigram_surprisal(train, words.vocabulary, times_of([["a", "b,"]]), apart)
    own = [-math.log2((int((train == index[word]).sum()) + 1) / (len(train) + V)) for word in ("a", "b", ",")]
    assert found == pytest.approx([own[0], own[1] + own[2]])


# The command


def test_runs_are_compared_on_the_words_that_all_of_them_know(
    words: api.Loaded, characters: api.Loaded, tmp_path: Path
):
    random = np.random.default_rng(0)
    rows = [(str(random.choice(["a", "b", '"c'], p=[0.45, 0.45, 0.1])), place, story, f"{random.normal(300, 20):.1f}")
            for story in range(4) for place in range(120)]  # fmt: skip
    in_quotes = [(word.replace('"c', '"""c"'), *row) for word, *row in rows]
    file, written = table(tmp_path / "t.tsv", in_quotes), tmp_path / "out.csv"
    runs = str(words.run.path), str(characters.run.path)
    outcome = command(
        *runs,
        str(file),
        "--csv",
        str(written),
        "--plot",
        str(tmp_path / "plot.svg"),
        "--words",
        str(tmp_path / "words"),
        main=reading.main,
    )
    assert outcome.code == 0, outcome
    lines = outcome.out.splitlines()
    columns = ["run", "model", "words", "perplexity", "gain", "low", "high", "difference", "lower", "higher", "slope"]
    assert lines[0].split() == columns
    with written.open() as each:
        first, second = csv.DictReader(each)
    assert [line.split() for line in lines[1:]] == [[cell for cell in row.values() if cell] for row in (first, second)]
    assert (first["difference"], first["lower"], first["higher"]) == ("", "", "")
    assert float(second["difference"]) == pytest.approx(float(second["gain"]) - float(first["gain"]), abs=0.011)
    assert float(second["lower"]) < float(second["difference"]) < float(second["higher"])
    assert [line.split()[:2] for line in lines[1:]] == [
        [run, model] for run, model in zip(runs, ("2-gram", "3-gram"), strict=True)
    ]
    known = sum(all(rows[i - lag][0] != '"c' for lag in range(3)) for i in range(len(rows)) if 2 <= i % 120 < 119)
    assert [line.split()[2] for line in lines[1:]] == [str(known)] * 2
    assert "the runs were trained on different texts" in outcome.err
    assert "unknown words are known" not in outcome.err
    shouted = table(tmp_path / "capitals.tsv", [(word.upper(), *row) for word, *row in in_quotes])
    capitals = command(runs[0], str(shouted), main=reading.main)
    assert "capitals.tsv: most of its unknown words are known in small letters" in capitals.err
    unknown, edges = ([row for row in rows if (row[0] == '"c') == it] for it in (True, False))
    edges = [row for row in edges if row[1] in (0, 119)]
    left = f"{len(unknown)} are not known to every model, {len(edges)} are the first or last of a sentence,"
    assert f"{known} of 480 words are compared; of the others {left}" in outcome.err
    with_edges = command(*runs, str(file), "--edges", main=reading.main)
    more = sum(all(rows[i - lag][0] != '"c' for lag in range(3)) for i in range(len(rows)) if i % 120 >= 2)
    assert more > known
    assert [line.split()[2] for line in with_edges.out.splitlines()[1:]] == [str(more)] * 2
    assert "of a sentence" not in with_edges.err
    header, *each = csv.reader((tmp_path / "words").read_text().splitlines(), delimiter="\t")
    names = ["/".join(Path(run).parts[-2:]) for run in runs]  # all folders end with /run
    assert header == ["item", "zone", "word", "meanItemRT", "compared", "rarity", *names]
    assert [[row[2], row[1], row[0], f"{float(row[3]):.1f}"] for row in each] == [[*map(str, row)] for row in rows]
    assert sum(row[4] == "true" for row in each) == known
    (a, bits), *_ = words.surprisal(f"{rows[0][0]} a")
    assert (each[0][2], float(each[0][6])) == (a.partition("→")[0], pytest.approx(bits, abs=1e-4))
    assert "3-gram" in (tmp_path / "plot.svg").read_text()
    (tmp_path / "word").symlink_to(words.run.path)
    refused = command(str(tmp_path / "word"), str(file), "--words", str(tmp_path / "again"), main=reading.main)
    assert "error: --words: two columns are named word; rename" in refused.err
    assert command(str(tmp_path / "word"), str(file), main=reading.main).code == 0


def test_a_run_that_has_read_less_of_the_same_text_is_reported(folder: Path):
    model = [*TEXT, "model=ngram", "model.order=1", "model.smoothing=additive", "device=cpu"]
    for run, part in (("all", "null"), ("again", "null"), ("part", "200")):
        done = command(*model, f"trainer.first_tokens={part}", f"run_dir={run}")
        assert done.code == 0, done
    rows = [
        (f"w{place * place % 5}", place, story, 300 + place * place % 7) for story in range(4) for place in range(120)
    ]
    for other, is_reported in (("again", False), ("part", True)):
        outcome = command("all", other, str(table(folder / "t.tsv", rows)), main=reading.main)
        assert outcome.code == 0, outcome
        assert ("part: was trained on only the first 200 tokens" in outcome.err) == is_reported


def test_a_table_of_few_words_and_a_run_without_words_are_refused(
    words: api.Loaded, characters: api.Loaded, tmp_path: Path
):
    file = str(table(tmp_path / "t.tsv", [("a", 1, 1, 1), ("b", 2, 1, 1), ("a", 3, 1, 1), ("b", 4, 1, 1)]))
    refused = command(str(words.run.path), file, main=reading.main)
    assert refused.code == 2
    assert "error: 1 word of 1 text: too few for a regression" in refused.err
    single = str(table(tmp_path / "single.tsv", [("a", 1, 1, 1)]))
    assert "error: 0 words of 0 texts: too few" in command(str(words.run.path), single, main=reading.main).err
    nothing = str(table(tmp_path / "t.tsv", [("a", 1, 1, "NA"), ("b", 2, 1, "NA"), ("a", 3, 1, "NA")]))
    assert "error: 0 words of 0 texts" in command(str(words.run.path), nothing, main=reading.main).err
    refused = command(str(characters.run.path), file, main=reading.main)
    assert "error: no run has a training text of words" in refused.err


def test_words_of_probability_zero_are_reported(words: api.Loaded, tmp_path: Path):
    text = words.run.path.parent / "text"
    options = ["corpus=text", f"corpus.train={text}", f"corpus.valid={text}", "corpus.context=sentence"]
    sharp = api.train(*options, "model=ngram", "model.order=2", "model.smoothing=mle", f"run_dir={tmp_path}/sharp")
    file = table(tmp_path / "t.tsv", [("c", 1, 1, 1), ("a", 2, 1, 1), ("c", 3, 1, 1), ("a", 1, 2, 1)])
    refused = command(str(sharp.run.path), str(file), main=reading.main)
    assert refused.code == 2
    assert "of the words that it knows have probability 0; smooth it" in refused.err
