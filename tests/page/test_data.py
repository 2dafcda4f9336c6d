"""What each tab shows, against the models themselves."""

import dataclasses
import math
from itertools import pairwise

import pytest
import torch

from lmzoo.api import Loaded
from lmzoo.core.errors import UserError
from lmzoo.corpus import Vocabulary
from lmzoo.corpus.form import Form
from lmzoo.models.hmm.hidden_markov import HiddenMarkovModel
from lmzoo.models.hmm.inference.paths import posterior, viterbi
from lmzoo.page import data, html
from lmzoo.page.zoo import Zoo
from lmzoo.protocol.sampling import Decoding

MODELS = ["ngram", "lstm", "hmm", "vlhmm", "lds"]
LINE = "the dog barks of england"


def word_by_word(lm: Loaded, words: list[str]) -> list[torch.Tensor]:
    """(V,) p of the next word before each of some words, and after the last."""
    state, found = lm.model.initial_state(1), []
    with torch.no_grad():
        for word in [*words, None]:
            found.append(lm.model.predict(state)[0].double().exp())
            if word is not None:
                _, state = lm.model(torch.tensor([[lm.vocabulary.index[word]]]), state)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_surprisal_is_that_of_predict_word_by_word(zoo: Zoo, name: str):
    lm = zoo.models[name]
    text = data.surprisal(lm, f"{LINE}\n\n  \nthe xylophone sees\n")
    assert [[token.word for token in line] for line in text] == [
        [*LINE.split(), "<eos>"], ["the", "xylophone", "sees", "<eos>"],
    ]  # fmt: skip
    assert [token.known for token in text[1]] == [True, False, True, True]
    for line, read in zip(text, (LINE.split(), ["the", "<unk>", "sees"]), strict=True):
        expected = word_by_word(lm, read)
        for token, own, p in zip(line, [*read, "<eos>"], expected, strict=True):
            assert token.p == pytest.approx(float(p[lm.vocabulary.index[own]]), rel=1e-4)
            assert token.bits == pytest.approx(-math.log2(p[lm.vocabulary.index[own]]), rel=1e-4)
            assert [p for _, p in token.expected] == pytest.approx(p.topk(3).values.tolist(), rel=1e-4)
    assert sum(token.bits for token in text[0]) == pytest.approx(-lm.score(LINE) / math.log(2), rel=1e-4)


def test_an_error_names_the_line_of_the_whole_text(zoo: Zoo):
    with pytest.raises(UserError, match="text, line 3: <eos> is added"):
        data.surprisal(zoo.models["ngram"], f"{LINE}\n\nthe <eos>")


def test_a_word_of_probability_0_has_infinitely_many_bits():
    impossible, likely = data.Token("a", 0.0), data.Token("b", 0.5)
    assert (impossible.bits, likely.bits) == (math.inf, 1)
    assert "perplexity ∞" in html.surprisal("run", [[impossible, likely]])
    assert "<b>1.00</b> bits a word, perplexity 2" in html.surprisal("run", [[likely, likely]])


def test_texts_of_no_word_or_too_many_are_refused(zoo: Zoo):
    for text, message in (("", "there is no word yet"), (" \n", "no word"), ("the " * 101, "101 words, and 100")):
        for show in (data.surprisal, data.states):
            with pytest.raises(UserError, match=message):
                show(zoo.hmms["hmm"], text)
    with pytest.raises(UserError, match="101 words"):
        data.next_words(zoo.models["ngram"], "the " * 101, 3)


@pytest.mark.parametrize("name", MODELS)
def test_next_words_are_the_likeliest_of_the_model(zoo: Zoo, name: str):
    lm = zoo.models[name]
    p = word_by_word(lm, ["the", "dog"])[2]
    begun, share, words, warning = data.next_words(lm, "the dog ", 4)
    assert (begun, share, warning) == ("", pytest.approx(1), None)
    assert [p for _, p in words] == pytest.approx(p.topk(4).values.tolist(), rel=1e-4)
    assert [lm.vocabulary.index[word] for word, _ in words] == p.topk(4).indices.tolist()


@pytest.mark.parametrize("name", MODELS)
def test_while_a_word_is_unfinished_next_words_are_those_that_begin_so(zoo: Zoo, name: str):
    lm = zoo.models[name]
    p = word_by_word(lm, ["the", "dog"])[2]
    fitting = {word: float(p[lm.vocabulary.index[word]]) for word in ("river", "rates")}
    begun, share, words, warning = data.next_words(lm, "the dog r", 9)
    assert (begun, warning) == ("r", None)
    assert share == pytest.approx(sum(fitting.values()), rel=1e-4)
    assert dict(words) == pytest.approx({word: p / sum(fitting.values()) for word, p in fitting.items()}, rel=1e-4)
    assert data.next_words(lm, "the dog riv", 9).words == [("river", 1)]
    assert data.next_words(lm, "xyz", 9) == ("xyz", 0, [], None)
    assert data.next_words(lm, "", 3) == data.next_words(lm, " ", 3)


def test_words_before_the_next_are_cut_as_the_text_was(zoo: Zoo):
    lm = zoo.models["ngram"]
    own = dataclasses.replace(lm, vocabulary=Vocabulary(lm.vocabulary.words, Form(tokenizer="words")))
    assert data.next_words(own, "the dog-/cat/r", 9) == data.next_words(own, "the dog - / cat / r", 9)
    treebank = dataclasses.replace(lm, vocabulary=Vocabulary([*lm.vocabulary.words[:-1], "N"], Form(tokenizer="ptb")))
    assert data.next_words(treebank, "the 7.5%/r", 9) == data.next_words(treebank, "the 7.5 % r", 9)
    assert data.next_words(own, "the dog/r", 9).share != data.next_words(own, "the r", 9).share


def test_unknown_words_before_the_next_are_reported_and_nothing_is_logged(zoo: Zoo, caplog: pytest.LogCaptureFixture):
    lm = zoo.models["lstm"]
    told = "the beginning: xylophone: read as <unk>, since the model does not know it"
    assert data.next_words(lm, "the xylophone ", 3) == data.next_words(lm, "the <unk> ", 3)._replace(warning=told)
    data.samples(lm, "the xylophone", 3, 0, 1, Decoding())
    data.surprisal(lm, "the xylophone")
    assert not caplog.records


@pytest.mark.parametrize("name", MODELS)
def test_samples_are_those_of_the_model_with_their_probabilities(zoo: Zoo, name: str):
    lm = zoo.models[name]
    knobs = {"temperature": 0.7, "top_k": 5, "top_p": 0.9}
    found = data.samples(lm, "the xylophone", 12, 3, 2, Decoding(**knobs))
    texts = lm.sample(12, 3, prompt="the xylophone", samples=2, **knobs)
    for sample, text in zip(found, texts, strict=True):
        assert [(token.word, token.p, token.known) for token in sample.prompt] == [
            ("the", None, True), ("xylophone", None, False),
        ]  # fmt: skip
        drawn = [token.word for token in sample.tokens]
        assert text.split() == ["the", "<unk>", *drawn]
        line = ["the", "<unk>", *drawn[: drawn.index("<eos>") if "<eos>" in drawn else None]]
        for token, p in zip(sample.tokens, word_by_word(lm, line)[2:], strict=False):
            assert token.p == pytest.approx(float(p[lm.vocabulary.index[token.word]]), rel=1e-4)
    assert found[0].tokens != found[1].tokens
    assert found == data.samples(lm, "the xylophone", 12, 3, 2, Decoding(**knobs))
    assert found != data.samples(lm, "the xylophone", 12, 4, 2, Decoding(**knobs))


def after(lm: Loaded, words: list[str]) -> torch.Tensor:
    """(T, Z) p(z_t | x) of some words, with nothing after them."""
    assert isinstance(lm.model, HiddenMarkovModel)
    tokens = torch.tensor([[lm.vocabulary.index[word] for word in words]])
    chain = lm.model.chain(tokens, lm.model.initial_state(1))
    gamma = posterior(chain, torch.tensor([len(words)]))
    return torch.zeros(len(words), lm.model.states).scatter_(1, chain.states[chain.block[0]], gamma[0])


@pytest.mark.parametrize("name", ["hmm", "vlhmm"])
@pytest.mark.parametrize("read", [None, 1, 3])
def test_states_are_the_filter_and_the_smoother(zoo: Zoo, name: str, read: int | None):
    lm = zoo.models[name]
    words = [*LINE.split(), "<eos>"]
    found = data.states(lm, LINE, read)
    number = read or len(words)
    assert (found.read, [word.word for word in found.words]) == (number, words)
    smoothed = after(lm, words[:number])
    for t, word in enumerate(found.words):
        for beliefs, p in [
            (word.filtered, after(lm, words[: t + 1])[t]),
            *([(word.smoothed, smoothed[t])] if t < number else []),
        ]:
            best = p.topk(min(data.STATES, len(p))).values
            assert [own for _, own in beliefs] == pytest.approx(best[best >= 0.01].tolist(), rel=1e-3)
            assert [float(p[state]) for state, _ in beliefs] == pytest.approx([own for _, own in beliefs], rel=1e-3)
        assert bool(word.smoothed) == (t < number)


@pytest.mark.parametrize("name", ["hmm", "vlhmm"])
def test_the_path_its_share_and_what_states_emit(zoo: Zoo, name: str):
    lm = zoo.models[name]
    assert isinstance(lm.model, HiddenMarkovModel)
    found = data.states(lm, LINE)
    tokens = lm.vocabulary.encode([LINE])[None]
    path, logprob = viterbi(lm.model.chain(tokens, lm.model.initial_state(1)), torch.tensor([6]))
    assert [word.path for word in found.words] == path[0].tolist()
    assert found.share == pytest.approx(math.exp(float(logprob) - lm.score(LINE)), rel=1e-3)
    assert {word.path for word in found.words} <= set(found.emits)
    for z, ranked in found.emits.items():
        p = lm.model.words(z).exp()
        assert [p for _, p in ranked] == pytest.approx(p.topk(5).values[: len(ranked)].tolist(), rel=1e-4)
        assert [float(p[lm.vocabulary.index[word]]) for word, _ in ranked] == pytest.approx([p for _, p in ranked])


def test_a_turn_is_the_later_word_that_moves_a_posterior_most(zoo: Zoo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(data, "TURNING", 0.0)
    lm, words = zoo.models["hmm"], [*LINE.split(), "<eos>"]
    for read in (2, 6):
        for t, word in enumerate(data.states(lm, LINE, read).words):
            steps = [after(lm, words[:k])[t] for k in range(t + 1, read + 1)]
            moves = [float((new - old).abs().sum() / 2) for old, new in pairwise(steps)]
            if not moves:
                assert word.turn is None
                continue
            k = moves.index(max(moves))
            gained = int((steps[k + 1] - steps[k]).argmax())
            assert word.turn is not None
            assert (word.turn.word, word.turn.state) == (t + k + 1, gained)
            figures = word.turn.moved, word.turn.before, word.turn.after
            expected = moves[k], float(steps[k][gained]), float(steps[k + 1][gained])
            assert figures == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert [data.states(lm, LINE, read).read for read in (-1, 0, 1, 6, 7)] == [1, 1, 1, 6, 6]
    monkeypatch.setattr(data, "TURNING", 1.1)
    assert not any(word.turn for word in data.states(lm, LINE).words)


def test_neighbours_and_analogies_are_the_best_of_all_words(zoo: Zoo):
    vectors = zoo.vectors["ppmi"].words
    unit = {word: vectors.unit[row] for word, row in vectors.index.items()}
    near = data.neighbours(vectors, "bank", 4)
    cosines = {word: float(unit[word] @ unit["bank"]) for word in unit if word != "bank"}
    assert [word for word, _ in near] == sorted(cosines, key=lambda word: -cosines[word])[:4]
    assert dict(near) == pytest.approx({word: cosines[word] for word, _ in near}, abs=1e-5)
    add, mul = data.analogy(vectors, "dog", "cat", " Bank ", 3)
    target = unit["bank"] - unit["dog"] + unit["cat"]
    others = [word for word in unit if word not in ("dog", "cat", "bank")]
    shifted = {word: [(float(unit[word] @ unit[other]) + 1) / 2 for other in ("dog", "cat", "bank")] for word in others}
    sums = {word: float(unit[word] @ target) for word in others}
    products = {word: b * a_star / (a + 0.001) for word, (a, a_star, b) in shifted.items()}
    for ranked, expected in ((add, sums), (mul, products)):
        assert [word for word, _ in ranked] == sorted(expected, key=lambda word: -expected[word])[:3]
        assert dict(ranked) == pytest.approx({word: expected[word] for word, _ in ranked}, rel=1e-3)
    with pytest.raises(UserError, match="'xylophone' has no vector"):
        data.neighbours(vectors, "xylophone", 3)
    with pytest.raises(UserError, match="a word is missing"):
        data.analogy(vectors, "dog", "", "bank", 3)
    with pytest.raises(UserError, match="there are 2 words; write one"):
        data.neighbours(vectors, "river bank", 3)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("The dog sees a cat.\nA Dog barks", "the dog sees a cat .\na dog barks"),  # a sign that the words have
        ("the dog sees the xylophone", "the dog sees the xylophone"),
        ("the xylophone", "the xylophone"),
        ("X Y", "X Y"),
        ("", ""),
    ],
)
def test_plain_text_is_cut_as_leaves_the_fewest_words_unknown(text: str, cut: str):
    words = ["<eos>", "<unk>", *["the", "a", "dog", "cat", "sees", "barks", "."]]
    assert data.tokenized(Vocabulary(words), text) == cut
    without = data.tokenized(Vocabulary(words[:-1]), text)
    assert without == cut.replace(" .", "")
    own = Form(tokenizer="words")
    assert data.tokenized(Vocabulary(words, own), text) == text


@pytest.mark.parametrize("name", ["hmm", "vlhmm"])
def test_gaps_change_with_the_words_on_either_side(zoo: Zoo, name: str):
    lm = zoo.models[name]
    shown = data.gaps(lm, "the ___ barks ___", 3)
    assert [len(gap) for gap in shown.gaps if gap] == [3, 3]
    assert shown.gaps[0] != data.gaps(lm, "the ___ sees ___", 3).gaps[0]
    for sentence, p in shown.best:
        filled = lm.score(sentence)
        assert math.exp(filled - shown.logprob) == pytest.approx(p, rel=1e-3)
    with pytest.raises(UserError, match="has no gap"):
        data.gaps(lm, LINE, 3)
