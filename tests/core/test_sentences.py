"""An option is said once: its sentence in the constructor's docstring, its default in ``configs``."""

import itertools

import pytest
import yaml

from lmzoo.core.configs import CONFIGS, defaults
from lmzoo.core.sentences import sentences

GROUPS = ("corpus", "labeller", "method", "model", "optimizer", "schedule", "task", "trainer")
ENTRIES = [(group, file.stem) for group in GROUPS for file in sorted((CONFIGS / group).glob("*.yaml"))]


@pytest.mark.parametrize(("group", "entry"), ENTRIES)
def test_a_docstring_has_a_sentence_for_every_option_and_the_yaml_has_none(group: str, entry: str):
    said, options = sentences(group, entry), defaults(group, entry)
    assert not [sentence for sentence in said.values() if sentence.startswith("see ")], "name what says it"
    assert [name for name in options if not said.get(name)] in ([], ["name"], ["defaults"]), (
        "say it in the constructor's docstring"
    )
    lines = (CONFIGS / group / f"{entry}.yaml").read_text("utf-8").splitlines()
    below = itertools.dropwhile(lambda line: line.startswith("#"), lines)
    assert [line for line in below if "#" in line] == [], "move it into the constructor's docstring"


@pytest.mark.parametrize("command", ["label", "train", "vectors"])
def test_an_option_of_all_runs_has_a_sentence_and_no_comment(command: str):
    text = (CONFIGS / f"{command}.yaml").read_text("utf-8").partition("\n\n")[2].partition("\n\n")[0]
    options = yaml.safe_load(text)
    assert "#" not in text
    assert options.keys() <= sentences(f"{command}.yaml").keys()


def test_a_sentence_is_found_where_options_are_shared():
    """In the class itself, in the `TypedDict` of several models, in a base of that, and in the part that it is for."""
    assert sentences("model", "rnn")["activation"].startswith("f, tanh or max(0, x)")
    assert sentences("model", "vlhmm")["states"] == "Z = MS, the number of hidden states, a multiple of clusters."
    assert sentences("model", "lstm")["last"].startswith("the size of the last layer")
    assert sentences("model", "nnlm")["memory"].startswith("the largest α of a fading context")
    assert sentences("method", "ppmi")["dim"] == "d, how many singular vectors are kept."
    assert sentences("labeller", "birnn")["from"].startswith("a run of a recurrent language model")
    assert sentences("model", "lds_rnn")["hidden"].startswith("h, the size of embeddings and states")


def test_choices_are_those_of_the_type():
    said = sentences("model", "rnn")
    assert said["activation"].endswith(" [tanh | relu]")
    assert said["clustering"].endswith(" [brown | uniform | frequency]")
    assert said["init_recurrent"].endswith(" [orthogonal | identity | graded | null]")
    assert not said["classes"].endswith("]")


def test_of_a_plug_in_nothing_is_said():
    assert sentences("model", "of_mine") == sentences("group_of_mine", "x") == {}
