"""The local tagger: what it can learn, and from what."""

from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import MODELS, QUICK, command
from torch.nn import functional as F

from lmzoo.commands import label, tag
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.labels.formats import Sentence
from lmzoo.labels.local import Local
from lmzoo.labels.model import labellers
from lmzoo.training.labels import learner_of


def begun(folder: Path, **options: object) -> tuple[Local, list[Sentence]]:
    """200 words whose two numbers have the same sign, or not; their label says which."""
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    rows = [f"w{i} {a} {b}\n" for i, (a, b) in enumerate(x.tolist())]
    (folder / "v.txt").write_text("200 2\n" + "".join(rows))
    same = ["same" if same else "other" for same in (x.prod(1) > 0).tolist()]
    sentences = [Sentence([f"w{i}" for i in range(k, k + 5)], same[k : k + 5], []) for k in range(0, 200, 5)]
    chosen = {"vectors": str(folder / "v.txt"), "window": 0, "batch": 20, "lr": 0.03}
    model: Local = labellers.build(defaults("labeller", "local") | chosen | options)
    model.start(sentences, seed=0)
    return model, sentences


@pytest.mark.parametrize(("hidden", "low", "high"), [(25, 0.9, 1), (0, 0, 0.7)])
def test_hidden_units_learn_what_no_linear_layer_can(tmp_path: Path, hidden: int, low: float, high: float):
    model, sentences = begun(tmp_path, hidden=hidden)
    assert model.steps == 20 * 10
    learner = learner_of(model)
    for number in range(model.steps):
        learner.step(number)
    right = [a == b for row, s in zip(model.label(sentences), sentences, strict=True)
             for a, b in zip(row, s.labels, strict=True)]  # fmt: skip
    assert low <= sum(right) / 200 <= high


def test_the_loss_is_cross_entropy_at_a_rate_that_falls(tmp_path: Path):
    model, sentences = begun(tmp_path, batch=200, epochs=4, hidden=0)
    gold = torch.tensor([["other", "same"].index(x) for s in sentences for x in s.labels])
    layer = model.network[0]
    expected = float(F.cross_entropy(model.features @ layer.weight.T + layer.bias, gold).detach())
    learner = learner_of(model)
    found = [learner.step(number) for number in range(4)]
    assert found[0]["train/loss"] == pytest.approx(expected)
    assert [step["train/learning_rate"] / 0.03 for step in found] == [1, 0.75, 0.5, 0.25]


def test_every_epoch_reads_each_word_once_in_another_order(tmp_path: Path):
    model, _ = begun(tmp_path)
    orders = [torch.cat([*model.batches(np.random.default_rng([0, epoch]))]) for epoch in range(2)]
    assert all(torch.equal(order.sort().values, torch.arange(200)) for order in orders)
    assert not torch.equal(*orders)


def test_averaged_weights_label_what_they_are_kept_with(tmp_path: Path):
    model, sentences = begun(tmp_path, average=0.999, hidden=0)
    with torch.no_grad():
        model.network[0].bias.copy_(torch.tensor([50.0, -50.0]))  # the weights of the last step say one thing
    learner = learner_of(model)
    for number in range(3):
        learner.step(number)
    with torch.no_grad():
        model.network[0].bias.copy_(torch.tensor([-50.0, 50.0]))  # and would now say the other
    again: Local = labellers.build(defaults("labeller", "local") | {"vectors": str(tmp_path / "v.txt"), "window": 0,
                                   "hidden": 0})  # fmt: skip
    again.load_state_dict(model.state_dict())
    assert model.label(sentences) == again.label(sentences)


def test_something_must_be_read():
    with pytest.raises(UserError, match=r"labeller=local has nothing to read; set labeller.vectors=RUN or"):
        labellers.build(defaults("labeller", "local"))


@pytest.mark.parametrize("model", [[*MODELS["lds"], "model.blocks=2"], [*MODELS["lstm"], "model.classes=3"]])
def test_a_run_reads_with_a_language_model_and_holds_it(folder: Path, model: list[str]):
    Path("lm.txt").write_text("the walk ends\nthey walk\na b c d e f\n" * 20)
    corpus = ["corpus=text", *(f"corpus.{split}=lm.txt" for split in ("train", "valid")), "corpus.unknown=true"]
    assert command(*corpus, *model, *QUICK, "run_dir=lm").code == 0
    Path("train.txt").write_text("The D\nwalk N\nends V\n\nthey P\nwalk V\n\n")
    options = ["task=pos", "labeller=local", "labeller.epochs=60", "labeller.lr=0.03", "task.train=train.txt",
               "task.test=train.txt"]  # fmt: skip
    assert "labeller.encoder: none: not a run" in command(*options, "labeller.encoder=none", main=label.main).refused()
    done = command(*options, "labeller.encoder=lm", "run_dir=r", main=label.main)
    assert "test accuracy 100.00" in done.out, done
    characters = command(*corpus, *model, "corpus.unit=char", *QUICK, "run_dir=characters")
    assert characters.code == 0, characters
    refused = command(*options, "labeller.encoder=characters", main=label.main).refused()
    assert "labeller.encoder: characters has corpus.unit=char, and here it is word" in refused
    Path("lm").rename("gone")
    Path("new.txt").write_text("the\nwalk\nends\n")
    assert command("r", "new.txt", main=tag.main).out == "the D\nwalk N\nends V\n"


@pytest.mark.parametrize(
    "labeller",
    [
        ["labeller=local", "labeller.epochs=1", "labeller.encoder=lm"],
        ["labeller=birnn", "labeller.epochs=1", "labeller.cell=rnn", "labeller.embedding=8", "labeller.hidden=8",
         "labeller.layers=1", "labeller.filters=0", "labeller.from=lm"],
    ],
)  # fmt: skip
def test_what_a_language_model_has_not_learnt_is_reported(folder: Path, labeller: list[str]):
    Path("lm.txt").write_text("the walk ends\nthey walk\n" * 20)
    corpus = ["corpus=text", *(f"corpus.{split}=lm.txt" for split in ("train", "valid")), "corpus.context=sentence"]
    model = [*corpus, "corpus.unknown=true", *MODELS["rnn"], *QUICK, "trainer.epochs=1"]
    assert command(*model, "trainer.first_tokens=40", "run_dir=lm").code == 0
    Path("lm/results.json").unlink()
    Path("train.txt").write_text("the D\nwalk N\nends V\n\n")
    options = ["task=pos", "task.train=train.txt", "task.test=train.txt", *labeller]
    assert command(*options, "run_dir=r", main=label.main).code == 0
    log = Path("r/train.log").read_text()
    assert "lm: its training is not finished; these are the best weights so far" in log
    assert "lm: was trained on only the first 40 tokens" in log
    Path("lm").rename("other")
    Path("lm.txt").write_text("P\tthe walk ends\nQ\tthey walk\n" * 20)
    assert command(*model, "corpus.condition=true", "run_dir=lm").code == 0
    refused = command(*options, "run_dir=s", main=label.main).refused()
    assert (
        f"{labeller[-1].split('=')[0]}: lm has corpus.condition=true; choose a run without corpus.condition" in refused
    )
