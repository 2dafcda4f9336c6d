"""Tables of n-grams whose tensors do not fit each other are refused as they are loaded, not when they are used."""

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.models.ngram.infinigram import InfiniGram, ranked
from lmzoo.models.ngram.ngram import NGram
from lmzoo.protocol.state_dict import restored

TEXT = torch.tensor([1, 2, 0, 2, 2, 1, 0, 1, 2, 0])
KEYS: list[Callable[[Tensor], Tensor]] = [
    lambda keys: keys.flip(0), lambda keys: keys * 0 + 10**6, lambda keys: keys - 100, lambda keys: keys + 10**6,
]  # fmt: skip
TABLE: dict[str, list[Callable[[Tensor], Tensor]]] = {
    "keys": [*KEYS, lambda keys: torch.cat([keys, keys[-1:] + 1])],
    "logprob": [lambda value: value[:-8], lambda value: value[:0]],
    "backoff": [lambda value: value[:0], lambda value: value[:-1], lambda value: torch.cat([value, value, value])],
}


def ngram() -> NGram:
    return NGram(3, order=3)


def table() -> Mapping[str, Tensor]:
    """1-grams 0, 1 and 2, rows 0 to 2; 0 1, 1 2, 2 0 and 2 2, rows 3 to 6; 0 1 2, row 7: keys are row * 3 + word."""
    keys = torch.tensor([0 * 3 + 1, 1 * 3 + 2, 2 * 3 + 0, 2 * 3 + 2, 3 * 3 + 2])
    return {"keys": keys, "logprob": torch.full((8,), -1.0), "backoff": torch.zeros(7)}


@pytest.mark.parametrize("name", TABLE)
def test_a_table_whose_parts_do_not_fit_is_refused(name: str):
    ngram().load_state_dict(table())
    restored(ngram, lambda model: model.load_state_dict(table()))
    ngram().load_state_dict(ngram().state_dict())
    for change in TABLE[name]:
        with pytest.raises(UserError, match="not those of one table of n-grams"):
            ngram().load_state_dict({**table(), name: change(table()[name])})


@pytest.mark.parametrize("change", [*KEYS, lambda keys: keys[1:], lambda keys: keys[:0]])
def test_keys_of_no_text_are_refused(change: Callable[[Tensor], Tensor]):
    keys = (TEXT * len(TEXT) + ranked(TEXT)).sort().values
    restored(lambda: InfiniGram(3), lambda model: model.load_state_dict({"keys": keys}))
    InfiniGram(3).load_state_dict(InfiniGram(3).state_dict())
    with pytest.raises(UserError, match="not those of the contexts of a text"):
        InfiniGram(3).load_state_dict({"keys": change(keys)})
