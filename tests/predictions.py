"""Small texts, and probabilities by `predict`, one word after another."""

from pathlib import Path

import torch

import lmzoo

TRAIN = "the dog saw a cat\na cat saw the dog\nthe dog ran\nthe cat saw a dog\n"
SENTENCES = "the dog barks\nthe cat sees the dog\na dog 's bark\n" * 3


def by_hand(run: Path, line: str) -> list[float]:
    """log p of each word of a line and of <eos>, by `predict`."""
    model, vocabulary = lmzoo.load(run)
    state, found = model.initial_state(1), []
    for token in vocabulary.encode([line]).tolist():
        found.append(float(model.predict(state)[0, token]))
        _, state = model(torch.tensor([[token]]), state)
    return found
