"""Models given the label of each line, against sums over labels, written-out equations and models without labels."""

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from lmzoo.core.configs import defaults
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.corpus.lines import by_line
from lmzoo.protocol.condition import Conditioned, initial_state
from lmzoo.protocol.model import models
from lmzoo.protocol.perplexity import text_logprobs
from lmzoo.protocol.sampling import Decoding, beam_search, sample
from lmzoo.runs.loading import build_model

WORDS, LABELS = 5, 3
SMALL = {
    "rnn": {"embedding": 4, "hidden": 4},
    "lstm": {"embedding": 4, "hidden": 4, "layers": 2},
    "gru": {"embedding": 4, "hidden": 4, "layers": 2, "residual": True, "last": 4},
    "lds_rnn": {"hidden": 4, "input": False, "dynamics": False},
    "nnlm": {"order": 3, "embedding": 4, "hidden": 4, "direct": True},
    "logbilinear": {"order": 3, "embedding": 4},
}
CASES = [*(name for name in SMALL if name != "gru"), pytest.param("gru", id="gru, residual")]
TEXT = torch.tensor([3, 1, 0, 0, 2, 2, 4, 0, 1, 0])
CONDITIONS = torch.tensor([2, 0, 1, 2])


def build(name: str, labels: int = LABELS) -> Any:
    torch.manual_seed(0)
    options = defaults("model", name) | SMALL[name] | {"init": 0.5, "dropout": 0.0}
    conditions = [str(number) for number in range(labels)]
    words = ["<eos>", *map(str, range(1, WORDS))]
    model = build_model(options, Vocabulary(words, conditions=conditions))
    assert isinstance(model, Conditioned)
    if labels:
        assert model.condition_vectors is not None
        assert not model.condition_vectors.any()  # so it begins as the model without labels
        torch.nn.init.normal_(model.condition_vectors)
        model.condition_shares = torch.tensor([0.5, 0.375, 0.125])
    return model.eval().requires_grad_(False)


@pytest.fixture(params=CASES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_with_vectors_of_zeros_a_model_is_the_one_without_labels(name: str):
    model, plain = build(name), build(name, labels=0)
    different = text_logprobs(model, TEXT, "sentence", CONDITIONS)
    model.condition_vectors.zero_()
    expected = text_logprobs(plain, TEXT, "sentence")
    assert torch.equal(text_logprobs(model, TEXT, "sentence", CONDITIONS), expected)
    assert (different - expected).abs().min() > 1e-4  # each word is given the label


def test_predictions_follow_the_label_from_word_to_word(name: str):
    model, tokens, conditions = build(name), torch.tensor([[1, 0, 4], [1, 0, 4], [2, 2, 0]]), torch.tensor([0, 2, 1])
    whole, after = model(tokens, initial_state(model, len(conditions), conditions))
    state = initial_state(model, len(conditions), conditions)
    for t in range(3):
        logprobs = model.predict(state)
        torch.testing.assert_close(logprobs.exp().sum(1), torch.ones(3))
        torch.testing.assert_close(whole[:, t], logprobs.gather(1, tokens[:, t : t + 1])[:, 0])
        _, state = model(tokens[:, t : t + 1], state)
    assert torch.equal(after[-1], conditions)
    torch.testing.assert_close(state, after)
    assert not torch.equal(whole[0], whole[1])


def test_the_vector_of_the_label_is_added_to_each_input():
    model = build("rnn").double()
    parts = dict(model.named_parameters())
    E, V = parts["embedding.weight"], parts["condition_vectors"]
    W, U, b, d = (parts[f"recurrent.{part}_l0"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    expected = []
    for line, c in zip(by_line(TEXT, TEXT), CONDITIONS.tolist(), strict=True):
        h, previous = torch.zeros(4).double(), 0
        for token in line.tolist():
            h = torch.tanh(W @ (E[previous] + V[c]) + b + U @ h + d)
            expected.append((model.output.weight @ h + model.output.bias).log_softmax(0)[token])
            previous = token
    torch.testing.assert_close(text_logprobs(model, TEXT, "sentence", CONDITIONS), torch.stack(expected))


def test_as_a_vector_joined_to_each_input():
    model, c = build("rnn").double(), 1
    W = model.recurrent.weight_ih_l0
    joined = torch.cat([model.embedding.weight[TEXT], model.condition_vectors[c].expand(len(TEXT), -1)], 1)
    added = model.add_condition(model.embedding(TEXT)[None], [torch.tensor([c])])[0]
    torch.testing.assert_close(added @ W.T, joined @ torch.cat([W, W], 1).T)


def test_without_labels_probability_is_the_sum_over_them(name: str):
    model, p = build(name), [0.5, 0.375, 0.125]
    found = text_logprobs(model, TEXT, "sentence").double()
    for i, line in enumerate(by_line(TEXT, TEXT)):
        for length in range(1, len(line) + 1):
            begun = line[None, :length]
            total = sum(
                p[c] * float(model(begun, initial_state(model, 1, torch.tensor([c])))[0].sum().exp()) for c in range(3)
            )
            assert float(by_line(found, TEXT)[i][:length].sum()) == pytest.approx(math.log(total), abs=1e-5)


def test_without_labels_all_beginnings_sum_to_one():
    model = build("lstm")
    beginnings = [(*line, 0) for line in itertools.product(range(1, WORDS), repeat=2)]
    two = text_logprobs(model, torch.tensor(beginnings).flatten(), "sentence").view(-1, 3)[:, :2].sum(1).exp().sum()
    ended = text_logprobs(model, torch.tensor([0, *itertools.chain(*((w, 0) for w in range(1, WORDS)))]), "sentence")
    shorter = [float(line.sum().exp()) for line in by_line(ended, torch.tensor([0, *[1, 0] * (WORDS - 1)]))]
    assert float(two) + sum(shorter) == pytest.approx(1, abs=1e-5)


def test_shares_are_those_of_the_lines_of_train():
    model = build("nnlm")
    words = Vocabulary(["<eos>", *map(str, range(1, WORDS))], conditions=["a", "b", "c"])
    corpus = Corpus("text", "sentence", words, {"train": TEXT, "valid": TEXT}, {}, conditions={"train": CONDITIONS})
    model.estimate(corpus)
    assert model.condition_shares.tolist() == [0.25, 0.25, 0.5]
    one = replace(corpus, conditions={"train": torch.tensor([1, 1, 1, 1])})
    model.estimate(one)  # where a label is in no line, the sum is over the others
    expected = text_logprobs(model, TEXT, "sentence", one.conditions["train"]).double()
    torch.testing.assert_close(text_logprobs(model, TEXT, "sentence"), expected, atol=1e-5, rtol=0)
    assert [len(part) for part in corpus.truncated(4).conditions.values()] == [2]


def test_texts_are_of_their_labels():
    """Words 1 and 2 are of label 0 alone, and 3 and 4 of label 1."""
    model = build("nnlm")
    torch.nn.init.zeros_(model.C.weight)
    model.condition_vectors.zero_()
    model.condition_vectors[0, 0], model.condition_vectors[1, 1] = 50.0, 50.0
    model.H.weight.copy_(torch.eye(4).repeat(1, 2))
    weight = torch.zeros_like(model.output.weight)
    weight[1:3, 0], weight[3:5, 1] = 60.0, 60.0
    model.output.weight.copy_(weight)
    model.condition_shares = torch.tensor([0.75, 0.25, 0.0])
    for condition, words in ((0, {1, 2}), (1, {3, 4})):
        drawn: Any = sample(model, 20, 0, context="sentence", samples=3, condition=condition)
        assert set(drawn.tokens.flatten().tolist()) == words
        assert drawn.conditions.tolist() == [condition] * 3
        (best,) = beam_search(model, 1, 3, condition=condition)
        assert set(best.tokens) <= words
    drawn: Any = sample(model, 5, 0, context="sentence", samples=400)
    assert torch.equal((drawn.tokens > 2).all(1), drawn.conditions == 1)
    assert (drawn.conditions == 0).sum() == pytest.approx(300, abs=35)


def test_a_new_line_has_the_label_of_the_text():
    model = build("lstm")
    drawn: Any = sample(model, 30, 1, context="sentence", samples=4, condition=2)
    assert (drawn.tokens == 0).any()
    for tokens, logprobs, c in zip(*drawn[:3], strict=True):
        text = torch.cat([tokens, tokens.new_zeros(1)])
        lines = int((text == 0).sum())
        scores = text_logprobs(model, text, "sentence", torch.full((lines,), int(c)))
        torch.testing.assert_close(scores[:-1].double(), logprobs)
    again: Any = sample(
        model, 6, 1, context="sentence", decoding=Decoding(top_k=1), prompt=torch.tensor([2]), condition=2
    )
    assert again.conditions.tolist() == [2]


def test_conditions_are_for_models_that_have_some():
    ngram = models.build(defaults("model", "ngram"), vocabulary_size=5)
    for model in (build("lstm", labels=0), ngram):
        with pytest.raises(ValueError, match="the model has no conditions"):
            initial_state(model, 1, torch.tensor([0]))
    with pytest.raises(ValueError, match="by itself, given its label; leave out the context stream"):
        text_logprobs(build("lstm"), TEXT, "stream")
    refusal = "a beam search is for the sentences of one label; give the label as condition"
    with pytest.raises(ValueError, match=refusal):
        beam_search(build("lstm"), 2, 3)


def test_a_prompt_tells_the_label_of_what_is_drawn_after_it():
    model = build("nnlm")
    prompt, p = torch.tensor([3] * 8), model.condition_shares.clone()
    for label in range(LABELS):
        p[label] *= model(prompt[None], initial_state(model, 1, torch.tensor([label])))[0].sum().exp()
    drawn = sample(model, 1, 0, context="sentence", samples=4000, prompt=prompt).conditions
    assert drawn is not None
    torch.testing.assert_close(drawn.bincount(minlength=LABELS) / 4000, p / p.sum(), atol=0.03, rtol=0)
    assert (p / p.sum() - model.condition_shares).abs().max() > 0.1
