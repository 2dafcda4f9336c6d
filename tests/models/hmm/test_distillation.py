"""Latent variable distillation: k-means labels, the complete-data likelihood, and runs that start from it."""

import json
from pathlib import Path

import pytest
import torch
from block_hmm_oracle import SWITCHES, dense_tables, make
from command_line import MODELS, QUICK, TEXT, command
from hmm_oracle import EXACT, V, words

from lmzoo.corpus import EOS_ID
from lmzoo.models.hmm.distillation import previous_states, state_labels
from lmzoo.runs.loading import load


def labelled(model, tokens):
    """A state of its cluster for each token, drawn at random."""
    return model.cluster[tokens] * model.size + torch.randint(model.size, tokens.shape)


@pytest.mark.parametrize(("name", "options"), SWITCHES, ids=str)
def test_complete_data_likelihood_is_that_of_dense_tables(name, options):
    model = make(name, **options).train()
    model.cluster.copy_(torch.arange(V).flip(0) % model.clusters)
    tokens = words(40)
    target = labelled(model, tokens)
    source = previous_states(target, tokens, "sentence")
    kept = torch.arange(model.size).expand(model.clusters + 1, model.size)
    start, transition, emission = dense_tables(model, kept)
    expected = torch.where(source < 0, start[target], transition[source, target]) + emission[target, tokens]
    found = model.distributions.joint_logprobs(source, target, tokens, model.cluster)
    torch.testing.assert_close(found, expected, **EXACT)
    weights = torch.randn(len(tokens), dtype=torch.float64)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = (
        torch.autograd.grad((weights * logprobs).sum(), parameters, allow_unused=True, retain_graph=True)
        for logprobs in (found, expected)
    )
    for parameter, own, dense in zip(parameters, *gradients, strict=True):
        zero = torch.zeros_like(parameter)
        torch.testing.assert_close(zero if own is None else own, zero if dense is None else dense, **EXACT)


@pytest.mark.parametrize("name", ["vlhmm", "twolevel_hmm", "lowrank_hmm"])
def test_complete_data_likelihood_of_determined_states_is_the_marginal_one(name):
    """With one state for each cluster, a text has just one path."""
    model = make(name, states=3, state_dropout=0.0).train()
    tokens = words(1, 30)
    target = model.cluster[tokens[0]]
    source = torch.cat([torch.tensor([-1]), target[:-1]])
    marginal, _ = model(tokens, model.initial_state(1))
    joint = model.distributions.joint_logprobs(source, target, tokens[0], model.cluster)
    torch.testing.assert_close(joint, marginal[0], **EXACT)


def test_chains_begin_with_lines_or_with_the_text():
    tokens = torch.tensor([3, EOS_ID, 4, 5, EOS_ID])
    states = torch.tensor([30, 0, 40, 50, 1])
    assert previous_states(states, tokens, "sentence").tolist() == [-1, 30, -1, 40, 50]
    assert previous_states(states, tokens, "stream").tolist() == [-1, 30, 0, 40, 50]


def test_tokens_of_a_word_are_split_by_their_vectors():
    """Two clusters of tokens, each with two groups far apart; a cluster of fewer tokens than states."""
    torch.manual_seed(0)
    cluster = torch.tensor([1, 0, 0, 1, 0, 0, 2, 1])
    group = torch.tensor([0.0, 9, 0, 9, 9, 0, 5, 0])
    vectors = group[:, None] + 0.1 * torch.randn(8, 3)
    labels = state_labels(vectors, cluster, 3, 2)
    assert (labels // 2).equal(cluster)
    for one in range(8):
        same = (cluster == cluster[one]) & (group == group[one])
        assert (labels == labels[one]).equal(same)


SMALL = [*TEXT, *QUICK, "corpus.context=sentence"]
STUDENT = [*SMALL, "model=twolevel_hmm", "model.states=24", "model.clusters=6", "model.dim=8", "model.state_dropout=0"]


@pytest.fixture
def encoder(folder: Path) -> str:
    assert command(*SMALL, *MODELS["lstm"], "run_dir=encoder").code == 0
    return "model.distilled_from=encoder"


def test_a_distilled_run_starts_below_the_unigram_and_needs_its_encoder_no_more(encoder: str):
    still = "optimizer.lr=1e-9"  # so what is measured is the distilled model
    distil = [*STUDENT, encoder, "model.distillation_epochs=8", still, "run_dir=distilled"]
    assert command(*distil).code == 0
    assert command(*STUDENT, still, "run_dir=random").code == 0
    distilled, random = (json.loads(Path(run, "results.json").read_text()) for run in ("distilled", "random"))
    assert distilled["perplexity"]["valid"] < 0.9 * random["perplexity"]["valid"]
    assert "complete-data log-likelihood of -" in Path("distilled/train.log").read_text()
    Path("encoder").rename("elsewhere")
    assert "already finished" in command(*distil).out


def test_the_encoder_may_have_read_another_train_and_its_classes_are_the_clusters(encoder: str):
    """With a warning, and as Brown's clusters of this train are others."""
    assert command(*SMALL, *MODELS["lstm"], "model.classes=6", "run_dir=classes").code == 0
    longer = [*STUDENT, "corpus.train=900", "model.distillation_epochs=1"]
    of_text = command(*longer, encoder, "run_dir=of_text")
    assert "model.distilled_from: encoder was trained on another text than train of corpus markov" in of_text.out
    assert command(*longer, "model.distilled_from=classes", "run_dir=of_classes").code == 0
    classes = load("classes")[0].output.classes.word_class
    assert classes.equal(load("of_classes")[0].cluster)
    assert not classes.equal(load("of_text")[0].cluster)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["model.distilled_from=ngram"], "model=ngram has no embeddings; choose a run of an rnn, gru, lstm"),
        (["model.parent=encoder"], "the states start from model.parent=encoder; leave one out"),
        (["corpus.valid=110"], "was trained on another text"),
    ],
)
def test_encoders_that_are_refused(encoder: str, options: list[str], message: str):
    assert command(*SMALL, *MODELS["ngram"], "run_dir=ngram").code == 0
    line = command(*STUDENT, encoder, "run_dir=new", *options).refused()
    assert "model.distilled_from" in line
    assert message in line
