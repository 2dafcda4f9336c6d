"""The bidirectional tagger beside loops over words and letters."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import lmzoo.models  # noqa: F401 - its import registers them
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Vocabulary
from lmzoo.labels.birnn import BiRNN
from lmzoo.labels.chain import log_partition, score
from lmzoo.labels.formats import Sentence
from lmzoo.labels.lexical import templates
from lmzoo.labels.model import labellers
from lmzoo.labels.network import Pooling, pooled
from lmzoo.protocol.model import LanguageModel, models
from lmzoo.training.labels import learner_of

SMALL = {"hidden": 6, "embedding": 5, "filters": 4, "column": 3, "dropout": 0.0, "unknown": 0.0, "epochs": 2}
SENTENCES = [
    Sentence(["The", "walk", "ends"], ["D", "N", "V"], [["x"], ["y"], ["x"]]),
    Sentence(["the", "talk"], ["D", "N"], [["x"], ["z"]]),
]


TEXTS = [
    Sentence(["A", "good", "film"], ["x"], []),
    Sentence(["bad"], ["y"], []),
    Sentence(["a", "bad", "film", ",", "bad"], ["y"], []),
]


def begun(texts: list[Sentence] = SENTENCES, **options: object) -> BiRNN:
    chosen = defaults("labeller", "birnn") | SMALL | options
    model: BiRNN = labellers.build(chosen)
    model.start(texts, seed=0)
    model.begin()
    return model


def features(model: BiRNN) -> dict[str, int]:
    """The numbers of its lexical features."""
    assert model.lexical is not None
    return model.lexical.numbers


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_layers_read_in_both_directions(cell: str):
    model = begun(cell=cell, layers=2)
    model.network.eval()
    inputs = model._inputs(SENTENCES)
    before = model.network(inputs).emission
    for changed in range(3):
        words = inputs.columns[0].clone()
        words[0, changed] = 1
        after = model.network(inputs._replace(columns=[words, *inputs.columns[1:]])).emission
        assert ((after[0] != before[0]).any(1)).all()
        assert torch.equal(after[1], before[1])


def test_a_layer_is_the_cell_step_by_step():
    model = begun(cell="rnn")
    model.network.eval()
    net = model.network
    inputs = model._inputs(SENTENCES[:1])
    spelled = net.spelled(inputs.letters)[inputs.spelling]
    vectors = torch.cat([*(embed(c) for embed, c in zip(net.embeddings, inputs.columns, strict=True)), spelled], 2)[0]
    weights = dict(net.recurrent.named_parameters())
    sides = []
    for end, order in (("", [0, 1, 2]), ("_reverse", [2, 1, 0])):
        h, rows = torch.zeros(6), {}
        for t in order:
            x = weights[f"weight_ih_l0{end}"] @ vectors[t] + weights[f"bias_ih_l0{end}"]
            rows[t] = h = (x + weights[f"weight_hh_l0{end}"] @ h + weights[f"bias_hh_l0{end}"]).tanh()
        sides.append(torch.stack([rows[t] for t in range(3)]))
    assert torch.allclose(net(inputs).emission[0], net.output(torch.cat(sides, 1)), atol=1e-6)


def test_a_filter_gives_its_largest_output_within_the_word():
    net = begun().network
    assert net.filters is not None
    assert net.letters is not None
    word = [4, 2, 3]
    letters = torch.tensor([[*word, 0, 0], [5, 6, 7, 8, 9]])
    vectors = [torch.zeros(4), *(net.letters.weight[i] for i in word), torch.zeros(4)]
    outputs = [
        sum((net.filters.weight[:, :, d] @ vectors[t + d] for d in range(3)), net.filters.bias) for t in range(3)
    ]
    assert torch.allclose(net.spelled(letters)[0], torch.stack(outputs).amax(0), atol=1e-6)


def test_without_moves_the_loss_is_cross_entropy():
    scores = begun(crf=False).network(begun()._inputs(SENTENCES[:1]))
    gold = torch.tensor([[0, 2, 1]])
    expected = F.cross_entropy(scores.emission[0], gold[0], reduction="sum")
    assert float((log_partition(scores) - score(scores, gold)).detach()) == pytest.approx(float(expected.detach()))
    for crf in (False, True):
        model = begun(crf=crf)
        learner = learner_of(model)
        learner.step(0)
        assert bool(model.network.moves.any()) == crf


def test_words_that_train_has_once_are_unknown_at_the_rate():
    model = begun(unknown=0.999999)
    read = []
    model.network.register_forward_pre_hook(lambda _, arguments: read.append(arguments[0].columns))
    learner = learner_of(model)
    learner.step(0)
    words, column = read[0]
    assert sorted(words.flatten().tolist()) == [0, 1, 1, 1, model.numbers[0]["the"], model.numbers[0]["the"]]
    assert (column > 1).sum() == 5
    model.label(SENTENCES)
    assert (read[-1][0] > 1).sum() == 5
    assert not model.network.training  # or dropout would change labels


def test_every_epoch_reads_each_sentence_once_in_another_order():
    model = begun(batch=1)
    groups = [model.batches(np.random.default_rng([0, epoch])) for epoch in range(8)]
    assert all(sorted(group) == [[0], [1]] for group in groups)
    assert groups[0] in groups[1:]
    assert any(group != groups[0] for group in groups)
    assert model.steps == 4


def test_the_rate_falls_to_zero():
    model = begun(batch=1)
    learner = learner_of(model)
    assert [learner.step(n)["train/learning_rate"] / model.lr for n in range(4)] == [1, 0.75, 0.5, 0.25]


def language_model(name: str = "lstm", **options: object) -> tuple[LanguageModel, Vocabulary]:
    vocabulary = Vocabulary.of(["the walk is"])
    sizes = {"embedding": 5, "hidden": 6, "layers": 2, "init": 0.5, "tied": False} | options
    return models.build(defaults("model", name) | sizes, vocabulary_size=len(vocabulary)), vocabulary


def test_the_forward_direction_starts_from_a_language_model():
    model, (lm, vocabulary) = begun(layers=2), language_model()
    drawn = {name: value.clone() for name, value in model.network.state_dict().items()}
    model.inherit(lm, vocabulary)
    model.network.eval()
    words = Sentence(["The", "walk"], [], [["x"], ["y"]])
    with torch.no_grad():  # what the language model does not read is nothing, so that its own states come out
        for layer, size in ((0, 5), (1, 6)):
            model.network.recurrent.get_parameter(f"weight_ih_l{layer}")[:, size:] = 0
        inputs = model._inputs([words])
        vectors = torch.cat([model.network.embeddings[0](inputs.columns[0]), torch.zeros(1, 2, 7)], 2)
        ours = model.network.recurrent(vectors)[0][:, :, :6]
        tokens = torch.tensor([[vocabulary.index["the"], vocabulary.index["walk"]]])
        zeros = torch.zeros(1, 2, 6)
        theirs, _ = lm.eval()._advance(tokens, (zeros, zeros))  # pyright: ignore[reportCallIssue]
    assert torch.allclose(ours, theirs, atol=1e-6)
    changed = model.network.state_dict()
    row = model.numbers[0]["talk"]  # which the language model does not know
    assert torch.equal(changed["embeddings.0.weight"][row], drawn["embeddings.0.weight"][row])
    assert torch.equal(changed["recurrent.weight_ih_l0_reverse"], drawn["recurrent.weight_ih_l0_reverse"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "gru"}, "no plain network of labeller.cell=lstm"),
        ({"name": "ngram"}, "no plain network of labeller.cell=lstm"),
        ({"weight_drop": 0.1}, "no plain network of labeller.cell=lstm"),
        ({"name": "rnn", "activation": "relu"}, "no plain network of labeller.cell=rnn"),
        ({"hidden": 7}, "has hidden 7; set labeller's to that"),
    ],
)
def test_a_language_model_that_does_not_suit_is_refused(options: dict, message: str):
    if options.get("name") == "ngram":
        vocabulary = Vocabulary.of(["a"])
        lm = models.build(defaults("model", "ngram"), vocabulary_size=len(vocabulary)), vocabulary
    else:
        lm = language_model(**options)
    cell = message[-3:] if message.endswith("rnn") else "lstm"
    with pytest.raises(UserError, match=message):
        begun(layers=2, cell=cell).inherit(*lm)


@pytest.mark.parametrize("pooling", ["last", "mean", "max"])
@torch.no_grad()
def test_a_text_is_pooled_as_by_a_loop_and_padding_changes_nothing(pooling: Pooling):
    states = torch.randn(3, 5, 4) - 9  # so that a state of padding, 0, would be the largest
    lengths = torch.tensor([3, 1, 5])
    rows = []
    for row, length in zip(states.tolist(), lengths.tolist(), strict=True):
        words = row[:length]
        if pooling == "last":
            rows.append(words[-1][:2] + words[0][2:])
        else:
            columns = zip(*words, strict=True)
            rows.append([sum(c) / length if pooling == "mean" else max(c) for c in columns])
    assert torch.allclose(pooled(states, lengths, pooling), torch.tensor(rows))
    model = begun(TEXTS, pooling=pooling, layers=2)
    model.network.eval()
    together = model.network(model._inputs(TEXTS))
    assert together.emission.shape == (3, 1, 2)
    alone = torch.cat([model.network(model._inputs([text])).emission for text in TEXTS])
    assert torch.allclose(together.emission, alone, atol=1e-6)


@pytest.mark.parametrize("pooling", ["last", "mean", "max"])
def test_labels_of_texts_are_learnt(pooling: str):
    model = begun(TEXTS, pooling=pooling, epochs=20, lr=0.02)
    scores = model.network(model._inputs(TEXTS)).emission[:, 0]
    expected = F.cross_entropy(scores, torch.tensor([0, 1, 1]))
    learner = learner_of(model)
    assert learner.step(0)["train/loss"] == pytest.approx(float(expected.detach()))
    for number in range(1, model.steps):
        learner.step(number)
    assert model.label(TEXTS) == [["x"], ["y"], ["y"]]
    other: BiRNN = labellers.build(defaults("labeller", "birnn") | SMALL | {"pooling": pooling})
    other.load_state_dict(model.state_dict())
    assert other.label(TEXTS) == [["x"], ["y"], ["y"]]


def test_eleven_columns_beside_words_keep_their_places():
    columns = [[*"abcdefghijk"], [*"kjihgfedcba"]]
    model = begun([Sentence(["The", "walk"], ["D", "N"], columns)])
    other: BiRNN = labellers.build(defaults("labeller", "birnn") | SMALL)
    other.load_state_dict(model.state_dict())
    assert other.numbers == model.numbers


def test_words_start_from_vectors(tmp_path: Path):
    file = tmp_path / "v.txt"
    file.write_text("3 5\nbad 1 2 3 4 5\ngood 5 5 5 5 -5\n<eos> 9 9 9 9 9\n")
    texts = TEXTS
    drawn, model = (begun(texts, pooling="mean", vectors=vectors) for vectors in (None, str(file)))
    before, after = (m.network.embeddings[0].get_parameter("weight").detach() for m in (drawn, model))
    number = model.numbers[0]
    bad, good = after[number["bad"]], after[number["good"]]
    assert torch.allclose(bad / bad[0], torch.tensor([1.0, 2, 3, 4, 5]))
    assert torch.allclose(good / bad[0], torch.tensor([5.0, 5, 5, 5, -5]))
    others = [i for i in range(len(before)) if i not in (number["bad"], number["good"])]
    assert torch.equal(before[others], after[others])
    assert model.network.embeddings[0].get_parameter("weight").requires_grad


def test_a_text_has_no_chain_of_labels():
    with pytest.raises(UserError, match=r"labeller.crf=true: a text has one label; leave out"):
        begun(TEXTS, pooling="max", crf=True)


def test_lexical_features_add_their_weights_to_the_scores_of_labels():
    """As in a loop over sentences and words."""
    plain, model = begun(), begun(lexical=2, crf=True)
    once = [name for sentence in SENTENCES for row in templates(sentence, {}) for name in row]
    assert sorted(features(model)) == sorted({name for name in once if once.count(name) >= 2})
    assert len(features(model)) < len(features(begun(lexical=1))) == len(set(once))
    table = model.network.get_parameter("lexical")
    assert table.shape == (len(features(model)), 3)
    assert not table.any()
    with torch.no_grad():
        table.normal_()
    words = [*SENTENCES, Sentence(["walk"], ["N"], [["y"]])]
    scores, without = (m.network(m._inputs(words)).emission for m in (model, plain))
    for i, sentence in enumerate(words):
        for t, names in enumerate(templates(sentence, {})):
            own = sum((table[features(model)[name]] for name in names if name in features(model)), torch.zeros(3))
            torch.testing.assert_close(scores[i, t], without[i, t] + own)


def test_dropout_leaves_out_lexical_features_in_training_alone():
    model = begun(lexical=1, dropout=0.5)
    table = model.network.get_parameter("lexical")
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.zero_()
        table.fill_(1)
    inputs, number = model._inputs(SENTENCES[:1]), len(templates(SENTENCES[0], {})[0])
    model.network.eval()
    assert model.network(inputs).emission[0, 0].tolist() == [number] * 3
    model.network.train()
    drawn = torch.stack([model.network(inputs).emission[0, 0] for _ in range(200)]).detach()
    assert float(drawn.mean()) == pytest.approx(number, rel=0.05)
    assert {round(value) % 2 for value in drawn.flatten().tolist()} == {0}
    assert drawn.std() > 1


def test_what_is_learnt_has_the_lexical_features():
    model = begun(lexical=1, crf=True, epochs=4)
    learner = learner_of(model)
    for number in range(model.steps):
        learner.step(number)
    assert model.network.get_parameter("lexical").any()
    other: BiRNN = labellers.build(defaults("labeller", "birnn") | SMALL | {"lexical": 1, "crf": True})
    other.load_state_dict(model.state_dict())
    assert features(other) == features(model)
    assert torch.equal(other.network.get_parameter("lexical"), model.network.get_parameter("lexical"))
    assert other.label(SENTENCES) == model.label(SENTENCES)


def test_the_beginnings_of_paths_in_a_tree_of_clusters_are_lexical_features(tmp_path: Path):
    (tmp_path / "paths.txt").write_text("010110\twalk\t3\n011\tthe\t9\n")
    model = begun(lexical=1, clusters=str(tmp_path / "paths.txt"), epochs=1)
    assert {"c0,4=0101", "c0,6=010110", "c-1,4=011", "c1,4=0101"} <= features(model).keys()
    assert not any(name.startswith("c") for name in features(begun(lexical=1)))
    learner = learner_of(model)
    learner.step(0)
    other: BiRNN = labellers.build(defaults("labeller", "birnn") | SMALL | {"lexical": 1, "clusters": "gone.txt"})
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.scores(SENTENCES).emission, model.scores(SENTENCES).emission)
    with pytest.raises(UserError, match=r"labeller.clusters=c: is used only for lexical features; set labeller.lex"):
        begun(clusters="c")
    with pytest.raises(UserError, match=r"labeller.clusters=c: is used only for lexical features; leave it out"):
        begun(TEXTS, clusters="c", pooling="max")
    with pytest.raises(UserError, match=r"labeller.lexical=9: no feature has this count; set it to 1"):
        begun(lexical=9)


def test_texts_have_no_lexical_features():
    with pytest.raises(UserError, match=r"labeller\.lexical: features are of words"):
        begun(TEXTS, lexical=1, pooling="max")
