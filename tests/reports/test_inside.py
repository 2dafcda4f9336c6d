"""Pictures of what is inside a model, for toys whose insides are known."""

from pathlib import Path

import pytest
import torch
from block_hmm_oracle import table_hmm

from lmzoo.corpus import Vocabulary
from lmzoo.models.hmm.hmm import HMM
from lmzoo.reports import inside
from lmzoo.reports.charts import rendered
from lmzoo.reports.inside import picture_of_states, transitions

pytest.importorskip("matplotlib")

WORDS = Vocabulary(["<eos>", "the", "a", "dog", "cat", "barks"])


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list:
    """The panels of the last picture."""
    found = []

    def noted(figure, file: Path) -> bytes:
        found.extend(figure.axes)
        return rendered(figure, file)

    monkeypatch.setattr(inside, "rendered", noted)
    return found


def test_clusters_stand_by_their_visits_and_are_named_by_their_words():
    model = table_hmm()
    visits, frequency = torch.tensor([1.0, 2, 0, 1, 3, 4]), torch.tensor([9, 95, 5, 6, 5, 8])
    with model.frozen():
        names, matrix = transitions(model, WORDS, frequency, visits)
        whole = model.cluster_transitions(visits)
    assert names == ["<eos> barks …", "the", "dog cat …"]
    assert matrix.tolist() == whole[[2, 0, 1]][:, [2, 0, 1]].tolist()
    assert matrix.sum(1).tolist() == pytest.approx([1] * 3)


def test_states_without_clusters_are_named_by_what_they_emit(panels: list, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    model = HMM(vocabulary_size=6, states=3, begin="random", iterations=1, pseudocount=0.1, gradient=True).eval()
    with torch.no_grad():
        model.emission[:] = 0
        model.emission[3, 1] = 9
    monkeypatch.setattr(inside, "SHOWN", 2)
    visits = torch.tensor([1.0, 7, 2])
    with model.frozen():
        names, matrix = transitions(model, WORDS, torch.ones(6), visits)
        assert names[0] == "1: dog"
        assert matrix.tolist() == [[float(model.successors(i)[j].exp()) for j in (1, 2)] for i in (1, 2)]
    assert picture_of_states(names, matrix, visits, "valid of toy", Path("a.png")).startswith(b"\x89PNG")
    left, right, bar = panels
    assert [label.get_text() for label in left.get_yticklabels()] == names
    assert [label.get_text() for label in bar.get_yticklabels()][0::7] == ["0", "1"]
    assert list(right.lines[0].get_ydata()) == [7, 2, 1]
