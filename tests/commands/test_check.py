"""``lmzoo check``: the rules of the protocol on a model of the zoo, and on one outside it."""

from pathlib import Path

import pytest
from command_line import TEXT, command

from lmzoo.commands import check
from lmzoo.protocol.model import models
from lmzoo.testing import RULES

OWN = """
from lmzoo.models.neural.recurrent import RNN
from lmzoo.protocol.model import models

@models.register("own")
class Own(RNN):
    def predict(self, state):
        return super().predict(state) + {added}
"""


def checked(*arguments: str):
    return command(*arguments, main=check.main)


def test_a_model_of_the_zoo_keeps_the_rules():
    done = checked(*TEXT, "model=rnn", "model.embedding=8", "model.hidden=8")
    assert done.code == 0, done
    marks = [line.split()[0] for line in done.out.splitlines()[:-1]]
    assert len(marks) == len(RULES)
    assert set(marks) == {"ok", "-"}
    assert done.out.endswith("rnn on markov: no rule is broken\n")


@pytest.mark.parametrize("added", [0, 1])
def test_a_model_outside_the_package(added: int, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(models, "entries", dict(models.entries))
    monkeypatch.syspath_prepend(folder)
    (folder / f"own{added}.py").write_text(OWN.format(added=added))
    (folder / "mine/model").mkdir(parents=True)
    (folder / "mine/model/own.yaml").write_text("defaults: [rnn, _self_]\nname: own\n")
    options = ["model=own", "model.embedding=8", "model.hidden=8", f"plugins=[own{added}]"]
    done = checked(*TEXT, "--config-dir", "mine", *options)
    assert done.code == added, done
    broken = [line for line in done.out.splitlines() if line.startswith("BROKEN")]
    assert bool(broken) == bool(added)
    if added:
        assert "probabilities sum to 2.71828; normalise over words" in broken[0]
        assert done.out.endswith("own on markov: 1 rule is broken\n") == (len(broken) == 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["model=nothing"], "model=nothing: no such model"),
        (["model=rnn", "model.hiden=3"], "did you mean 'model.hidden'?"),
        (["model=rnn", "trainer.epochs=3"], "trainer.epochs=3: no option of lmzoo check; choose from: model, corpus"),
        (["model=mixture"], "model.runs=[]: a mixture needs trained runs"),
        (["model=ngram", "seed=abc"], "seed=abc: must be"),
        (["model=ngram", "plugins=null"], "plugins=null: must be"),
        (["model=ngram", "model.order=${nope}"], "nope"),
        (["rnn"], "'rnn': write options as key=value"),
    ],
)
def test_what_is_none(given: list[str], said: str):
    assert said in checked(*TEXT, *given).refused()
