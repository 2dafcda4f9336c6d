"""The cross-entropy with a teacher against its definition, from the model's own predictions of every word."""

import pytest
import torch
from block_hmm_oracle import make
from hmm_oracle import V

from lmzoo.protocol.model import models

TOKENS = torch.tensor([[3, 1, 4, 1, 0], [5, 2, 0, 0, 0], [0, 0, 0, 0, 0]])
COUNTS = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]]).bool()
"""`<eos>` after `<eos>` is padding or an empty line."""


def teacher(**options):
    torch.manual_seed(1)
    settings = {"embedding": 4, "hidden": 4, "layers": 1, "dropout": 0.5, "tied": False, "classes": None,
               "clustering": "brown", "init": 1.0, "embedding_from": None, "embedding_frozen": False, "locked": False,
               "dropout_input": 0.0, "dropout_between": None, "dropout_words": 0.0, "weight_drop": 0.0,
               "residual": False, "last": None, "ar": 0.0, "tar": 0.0, "softmaxes": 1,
               "init_recurrent": None} | options  # fmt: skip
    return models.build({"name": "lstm", **settings}, vocabulary_size=V).double().eval()


def predictions(model):
    """(B, T, V) log p(w | x_<t), the words before t being read one by one."""
    state, rows = model.initial_state(len(TOKENS)), []
    for t in range(TOKENS.shape[1]):
        rows.append(model.predict(state))
        _, state = model(TOKENS[:, t : t + 1], state)
    return torch.stack(rows, 1)


@pytest.mark.parametrize("options", [{}, {"classes": 3}, {"classes": 2}, {"softmaxes": 2}])
def test_it_is_that_of_clusters_and_of_the_words_of_the_true_cluster(options):
    student, taught = make("twolevel_hmm", state_dropout=0.0, temperature=1.0, teacher_weight=0.7), teacher(**options)
    student.cluster.copy_(torch.arange(V) % 3)  # as the classes of the second teacher
    student.imitate(taught)
    member = torch.nn.functional.one_hot(student.cluster).double()  # (V, M)
    q, p = predictions(taught).detach().exp(), predictions(student.eval()).exp()
    clusters = -((q @ member) * (p @ member).log()).sum(2)  # (B, T)
    true = member.T[student.cluster[TOKENS]]  # (B, T, V) whether a word is of the true word's cluster
    inside = [of * true / (of * true).sum(2, keepdim=True) for of in (q, p)]
    words = -torch.xlogy(inside[0], inside[1].where(true > 0, 1.0)).sum(2)
    expected = 0.7 * (clusters + words)[COUNTS].mean()

    student.train()(TOKENS, student.initial_state(len(TOKENS)))
    penalty = student.penalty()
    assert student.penalty() == 0.0
    parameters = [each for each in student.parameters() if each.requires_grad]
    torch.testing.assert_close(penalty, expected)
    torch.testing.assert_close(
        *(torch.autograd.grad(each, parameters, allow_unused=True) for each in (penalty, expected))
    )
