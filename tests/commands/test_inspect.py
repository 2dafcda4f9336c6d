"""The description of an HMM's hidden states, for a toy whose states are known, and the command on a small run."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from block_hmm_oracle import dense_tables, table_hmm
from command_line import MODELS, QUICK, TEXT, command
from hmm_oracle import all_paths
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import lmzoo
from lmzoo.commands import inspect
from lmzoo.core.errors import UserError
from lmzoo.corpus import Vocabulary
from lmzoo.models.hmm import block_hmm
from lmzoo.models.hmm.block_hmm import BlockHMM
from lmzoo.models.hmm.reading import entropy, expected_visits
from lmzoo.models.lds.lds import singular_words
from lmzoo.protocol.model import models
from lmzoo.runs.directory import Run

WORDS = Vocabulary(["<eos>", "the", "a", "dog", "cat", "barks"])


@pytest.fixture
def model() -> BlockHMM:
    """States 0 and 1 emit articles, 2 and 3 animals, 4 and 5 the verb and the end. A noun follows an article."""
    model = table_hmm()
    with torch.no_grad():
        model.distributions.transition[:2, 2:4] += 5
        model.distributions.emission[1] += torch.tensor([3.0, -3.0])  # state 0 prefers "the", state 1 "a"
    return model


def paths_of(model: BlockHMM, text: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """(N, T) all paths of a text, by the model's dense tables, and the (N,) log p(z, x) of each."""
    paths, scores = all_paths(*dense_tables(model, model.tables().active), text)
    return torch.tensor(paths), scores.detach()


def test_usage_is_the_sum_of_posteriors(model):
    lines = [[1, 3, 5, 0], [2, 4, 0], [0], [1, 4, 5, 0]]
    visits = expected_visits(model, torch.tensor([token for line in lines for token in line]))
    expected = torch.zeros(6, dtype=torch.float64)
    for line in lines:
        paths, scores = paths_of(model, line)
        for z in paths.T:
            expected.index_add_(0, z, scores.double().softmax(0))
    torch.testing.assert_close(visits, expected, rtol=1e-5, atol=1e-6)
    assert visits.sum().item() == pytest.approx(12, rel=1e-5)


def test_the_use_of_states_is_reported_in_shares_of_all_visits(model):
    tokens = torch.tensor([1, 3, 5, 0])
    visits = expected_visits(model, tokens)
    used = [int((visits >= least).sum()) for least in (1, 0.5)]
    assert 0 < used[0] < used[1]
    inspector = inspect.Inspector(model, WORDS, 5)
    first, _, *states = inspector.usage(tokens, expected_visits(model, tokens), "test")
    p = (visits / 4).tolist()
    nats = -sum(share * math.log(share) for share in p)
    assert first == (
        f"4 tokens of test visit {used[0]} of 6 states at least once on average; entropy {nats:.3f} nats, "
        f"that of {math.exp(nats):.0f} states used equally often"
    )
    ranked = sorted(range(6), key=lambda z: -p[z])[:5]
    assert states == [f"{100 * p[z]:6.2f}%  state {z:<7d} {inspector.words(model.words(z))}" for z in ranked]


def test_lines_of_probability_0_are_left_out_and_have_no_path():
    torch.manual_seed(0)
    options = {"name": "hmm", "states": 2, "begin": "random", "iterations": 0, "pseudocount": 0.0, "gradient": True}
    model = models.build(options, vocabulary_size=6).eval()
    with torch.no_grad():
        model.emission[4] = -torch.inf  # "cat"
    possible, impossible = torch.tensor([1, 3, 0]), torch.tensor([1, 4, 0])
    visits = expected_visits(model, torch.cat([possible, impossible]))
    torch.testing.assert_close(visits, expected_visits(model, possible))
    with pytest.raises(UserError, match="has probability 0 under the model"):
        inspect.Inspector(model, WORDS, 3).sentence("the cat")


def test_entropy_counts_equally_used_states():
    assert math.exp(entropy(torch.tensor([3.0, 3.0, 0.0, 3.0]))) == pytest.approx(3)
    assert entropy(torch.tensor([0.0, 5.0])) == 0


def test_words_and_successors_of_a_state_are_printed(model):
    _, emits, then, _, *following = inspect.Inspector(model, WORDS, 3).state(0)
    p, q = model.words(0).exp(), model.next_words(0).exp()
    assert emits == f"emits, in %:       the {100 * p[1]:.0f}, a {100 * p[2]:.0f}"
    assert then.startswith(f"next words, in %:  {WORDS.words[int(q.argmax())]} {100 * q.max():.0f}, ")
    assert len(following) == 3
    top = model.successors(0).exp().topk(3)
    assert [int(line.split()[2]) for line in following] == top.indices.tolist()
    assert following[0].startswith(f"{100 * top.values[0]:6.1f}%")
    assert set(top.indices[:2].tolist()) == {2, 3}
    two = inspect.Inspector(model, WORDS, 2)
    assert two.state(0)[4:] == [
        f"{100 * p:6.1f}%  state {z:<7d} {two.words(model.words(z), 5)}"
        for p, z in zip(top.values[:2].tolist(), top.indices[:2].tolist(), strict=True)
    ]
    assert two.words(model.words(2), 1) in two.words(model.words(2)).split(", ")
    assert len(two.words(torch.full((6,), 1 / 6).log()).split(", ")) == 2


def test_a_sentence_is_shown_with_its_path(model):
    lines = inspect.Inspector(model, WORDS, 3).sentence("a dog barks")
    paths, scores = paths_of(model, [2, 3, 5, 0])
    p, best = scores.softmax(0), int(scores.argmax())
    gamma = [float(p[paths[:, t] == z].sum()) for t, z in enumerate(paths[best])]
    expected = zip(["a", "dog", "barks", "<eos>"], paths[best].tolist(), gamma, strict=True)
    assert [line.split()[:3] for line in lines[1:-1]] == [[word, str(z), f"{share:.2f}"] for word, z, share in expected]
    assert lines[1].endswith(inspect.Inspector(model, WORDS, 3).words(model.words(int(paths[best, 0]))))
    whole = float(scores.logsumexp(0))
    assert lines[-1] == f"log p(x) = {whole:.2f} nats, of which this path has {100 * float(p[best]):.2g}%"


def test_a_dense_model_is_shown_as_well():
    torch.manual_seed(0)
    options = {"states": 5, "dim": 4, "dropout": 0.0, "state_dropout": 0.5}
    model = models.build({"name": "neural_hmm", **options}, vocabulary_size=6).double().eval()
    assert expected_visits(model, torch.tensor([1, 3, 0, 2, 0, 0])).sum().item() == pytest.approx(6)
    assert len(inspect.Inspector(model, WORDS, 3).sentence("a dog barks")) == 6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("runs") / "vlhmm"
    assert command(*TEXT, *QUICK, *MODELS["vlhmm"], f"run_dir={path}").code == 0
    return path


def test_the_picture_is_of_transitions_between_clusters_with_all_states(run):
    model, _ = lmzoo.load(run)
    corpus = Run(run).corpus()
    model.train()
    (name, matrix), *others = model.images(corpus).items()
    assert model.training
    assert (name, others) == ("transitions/clusters", [])
    model.eval()
    lines = (corpus.splits["valid"] == 0).sum()
    assert lines < 1000  # all of them are read
    expected = model.cluster_transitions(expected_visits(model, corpus.splits["valid"]))
    torch.testing.assert_close(matrix**2, expected)
    torch.testing.assert_close(expected.sum(1), torch.ones(6))


def test_the_picture_weights_states_by_their_visits_in_the_first_lines(model, monkeypatch):
    lines = [torch.tensor(line) for line in ([1, 3, 0], [2, 4, 5, 0], [2, 2, 0])]
    monkeypatch.setattr(block_hmm, "LINES_READ", 2)
    few, all_lines, equal = (
        model.cluster_transitions(visits)
        for visits in (*(expected_visits(model, torch.cat(some)) for some in (lines[:2], lines)), torch.ones(6))
    )
    text, words = torch.cat(lines), Vocabulary(["<eos>", *"abcde"])
    corpus = SimpleNamespace(splits={"valid": text, "train": text}, vocabulary=words)
    picture = model.images(corpus)["transitions/clusters"]
    torch.testing.assert_close(picture**2, few)
    assert not torch.allclose(few, all_lines, rtol=1e-3)
    assert not torch.allclose(few, equal, rtol=1e-3)


def look(*arguments: str):
    return command(*arguments, main=inspect.main)


def test_the_command_shows_how_states_are_used(run):
    outcome = look(str(run))
    assert outcome.code == 0
    model, _ = lmzoo.load(run)
    visits = expected_visits(model, Run(run).corpus().splits["valid"])
    head, _, *states = outcome.out.splitlines()
    assert f"{int((visits >= 1).sum())} of 24 states" in head
    assert f"entropy {entropy(visits):.3f} nats" in head
    assert [int(line.split()[2]) for line in states] == visits.topk(12).indices.tolist()


def test_the_command_shows_states_and_sentences(run):
    outcome = look(str(run), "--state", "3", "--sentence", Run(run).vocabulary().words[3], "--top", "2")
    assert outcome.code == 0
    assert len(outcome.out.splitlines()) == 4 + 2 + 1 + 2 + 1


def test_the_states_of_a_run_are_drawn(run, tmp_path):
    pytest.importorskip("matplotlib")
    assert look(str(run), "--plot", str(tmp_path / "a.svg")).out == look(str(run)).out
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    assert "plots the whole model" in look(str(run), "--plot", "a.png", "--state", "3").refused()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--state", "24"], "--state 24: there are states 0 to 23"),
        (["--state", "-1"], "--state -1: must be at least 0"),
        (["--top", "0"], "--top 0: must be at least 1"),
        (["--sentence", "gibberish"], "gibberish"),
        (["--state", "3", "--split", "test"], "--split test: is of the whole model; leave out --state"),
    ],
)
def test_mistakes_are_answered_in_one_line(run, arguments, message):
    assert message in look(str(run), *arguments).refused()


def test_a_model_without_states_is_refused(tmp_path):
    assert command(*TEXT, *QUICK, *MODELS["ngram"], f"run_dir={tmp_path / 'ngram'}").code == 0
    assert "needs a hidden Markov model" in look(str(tmp_path / "ngram")).refused()


def test_transitions_between_clusters_are_an_image_of_the_run(run):
    events = EventAccumulator(str(run))
    events.Reload()
    (image,) = events.Images("transitions/clusters")
    assert image.width == image.height == 510  # 85 pixels for each of 6 clusters


def test_an_unknown_word_of_a_sentence_is_reported(model):
    words = Vocabulary([*WORDS.words[:5], "<unk>"])
    lines = inspect.Inspector(model, words, 3).sentence("a xylophone <unk>")
    assert [line.split()[0] for line in lines[1:-1]] == ["a", "xylophone→<unk>", "<unk>", "<eos>"]


def test_the_dynamics_of_a_linear_dynamical_system_are_the_words_that_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("lds", "ngram"):
        assert command(*TEXT, *QUICK, *MODELS[name], f"run_dir={tmp_path / name}").code == 0
    monkeypatch.setattr(inspect, "COMMON", 10)
    model, vocabulary = lmzoo.load(tmp_path / "lds")
    parts = (model.A.double(), model.C[:10].double(), model.spherical.double())
    for shown, words in ([], 6), (["--top", "2"], 2), (["--top", "99"], 10):
        expected = [
            f"{sigma:.2f}  {'  →  '.join(' '.join(vocabulary.words[word] for word in end) for end in ends)}"
            for sigma, *ends in singular_words(*parts, pairs=10, words=words)
        ]
        assert command(str(tmp_path / "lds"), *shown, main=inspect.main).out.splitlines() == expected
        assert len(expected) == 12
    for option in ("--state=0", "--sentence=w1", "--split=test", f"--plot={tmp_path / 'a.svg'}"):
        message = command(str(tmp_path / "lds"), option, main=inspect.main).refused()
        assert f"{option.split('=')[0]}: is of a hidden Markov model, and" in message
    message = command(str(tmp_path / "ngram"), main=inspect.main).refused()
    assert "needs a hidden Markov model, such as model=vlhmm, or a linear dynamical system" in message
