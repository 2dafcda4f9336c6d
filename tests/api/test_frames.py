"""The frame of a text has what one computes word by word."""

import math
import sys
from collections import Counter
from typing import Any

import pytest
import torch

from lmzoo.api import Loaded
from lmzoo.core.errors import UserError

TEXTS = ["The dog's bark", "A zebra"]


def column(frame: Any, name: str) -> list:
    return frame[name].to_list()


def test_each_column_by_hand(trigrams: Loaded):
    pytest.importorskip("pandas", reason="a frame is of pandas")
    frame = trigrams.frame(TEXTS, tokenize="ptb")
    words = ["the", "dog", "'s", "bark", "<eos>", "a", "zebra", "<eos>"]
    assert column(frame, "word") == words
    assert list(trigrams.frame([])) == list(frame)
    assert column(frame, "text") == [0] * 5 + [1] * 3
    assert column(frame, "position") == [1, 2, 3, 4, 5, 1, 2, 3]
    assert column(frame, "known") == [word != "zebra" for word in words]
    surprisal = [bits for line in trigrams.surprisal(["the dog 's bark", "a zebra"]) for _, bits in line]
    assert column(frame, "surprisal") == pytest.approx(surprisal, abs=1e-5)
    index, V = trigrams.vocabulary.index, len(trigrams.vocabulary)
    counts = Counter((trigrams.run.path.parent / "text").read_text().replace("\n", " <eos> ").split())
    N = sum(counts.values())
    shares = [math.log2((counts[word] + 1) / (N + V)) for word in words]
    assert column(frame, "log_frequency") == pytest.approx(shares)
    entropies, ranks = [], []
    for line in (words[:5], words[5:]):
        state = trigrams.model.initial_state(1)
        for word in line:
            token = index.get(word, index["<unk>"])
            p = trigrams.model.predict(state)[0].double().exp()
            entropies.append(-sum(float(each) * math.log2(float(each)) for each in p))
            ranks.append(1 + int((p > p[token]).sum()))
            _, state = trigrams.model(torch.tensor([[token]]), state)
    assert column(frame, "entropy") == pytest.approx(entropies, rel=1e-4)
    assert column(frame, "rank") == ranks
    before = [math.nan, *surprisal[:4], math.nan, *surprisal[5:7]]
    assert column(frame, "surprisal_1") == pytest.approx(before, nan_ok=True)
    assert column(frame, "surprisal_2") == pytest.approx(
        [math.nan, math.nan, *surprisal[:3], math.nan, math.nan, surprisal[5]], nan_ok=True
    )
    places = zip(column(frame, "text"), column(frame, "start"), column(frame, "end"), strict=True)
    assert [TEXTS[text][start:end] for text, start, end in places] == [
        "The", "dog", "'s", "bark", "", "A", "zebra", "",
    ]  # fmt: skip
    region = frame[(frame.text == 0) & frame.start.between(4, 9)].surprisal.sum()
    assert region == pytest.approx(sum(surprisal[1:3]))


def test_context_is_text_before_also_in_a_frame(lstm: Loaded):
    pytest.importorskip("pandas", reason="a frame is of pandas")
    words = lstm.vocabulary.decode
    whole = lstm.frame(words([3, 5, 4, 6]))
    after = lstm.frame([words([4, 6])], context=words([3, 5]))
    for name in ("word", "surprisal", "entropy", "rank", "log_frequency"):
        assert column(after, name) == pytest.approx(column(whole, name)[2:], abs=1e-4)
    assert column(after, "surprisal_1")[0] != column(after, "surprisal_1")[0]


def test_frames_need_pandas(trigrams: Loaded, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="a data frame needs pandas, which is not installed; pip install"):
        trigrams.frame(TEXTS)
