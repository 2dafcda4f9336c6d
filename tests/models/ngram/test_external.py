"""n-grams counted in files: the bits of those counted in memory, in parts of bounded size; a disk that is full."""

import re
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from command_line import command
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_ngram import DEFAULT_4, DEFAULTS, SMOOTHINGS, WORDS, all_options, stream, texts

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.models.ngram import external
from lmzoo.models.ngram.counts import count_ngrams
from lmzoo.models.ngram.external import BYTES, Stored, count_in_files
from lmzoo.models.ngram.ngram import NGram
from lmzoo.models.ngram.smoothing import estimate


def gib(tokens: int) -> float:
    """The memory in which so many tokens are sorted at once."""
    return tokens * BYTES / 2**30


@pytest.fixture
def any_memory() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external, "LEAST_READ", 0)
        yield


def require_same(tokens: torch.Tensor, vocabulary_size: int, order: int, memory: float) -> None:
    """Compare all columns of all orders with those counted in memory."""
    whole = count_ngrams(tokens, vocabulary_size, order)
    stored = count_in_files(tokens, vocabulary_size, order, memory)
    assert len(whole) == len(stored) == order
    for one, other in zip(whole, stored, strict=True):
        for name, value in vars(one).items():
            column = getattr(other, name)
            assert torch.equal(
                torch.as_tensor(column[:] if isinstance(column, Stored) else column), torch.as_tensor(value)
            )


@settings(deadline=None, max_examples=20)
@given(texts, all_options, st.integers(1, 5), st.integers(3, 20))
@example([[1, 2], [1]], DEFAULT_4, 5, 1)  # each token is a run
@example([[]], DEFAULT_4, 5, 1)
@example([[1, 1, 2, 3, 3], [3, 3, 1]], DEFAULT_4 | {"prune": [0, 0, 1]}, 3, 4)
def test_a_text_is_counted_in_files_to_the_same_bits(lines: list[list[int]], options: dict, order: int, tokens: int):
    options = options | {"vocabulary_size": WORDS + 1, "discount_fallback": True, "order": order}
    options["prune"] = options["prune"][:order]
    whole = estimate(stream(lines), **options | {"memory": None})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external, "LEAST_READ", 0)
        require_same(stream(lines), WORDS + 1, order, gib(tokens))
        for module in ("counts", "discounts", "smoothing"):
            patch.setattr(f"lmzoo.models.ngram.{module}.PIECE", tokens)
        stored = estimate(stream(lines).int(), **options | {"memory": gib(tokens)})
    for name in ("keys", "logprob", "backoff"):
        assert getattr(whole, name).tolist() == getattr(stored, name).tolist()


@pytest.mark.parametrize("ascending", [False, True])
def test_many_runs_are_merged_a_few_n_grams_at_a_time(
    any_memory: None, ascending: bool, monkeypatch: pytest.MonkeyPatch
):
    """Runs of like words, and runs of which each has words of its own; never is more than a run read."""
    random = torch.Generator().manual_seed(0)
    text = (40 * torch.rand(1500, generator=random) ** 3).long()
    text = text.sort().values if ascending else text
    text[7::8] = 0
    read, slices = Stored.__getitem__, []
    monkeypatch.setattr(Stored, "__getitem__", lambda *own: slices.append(len(part := read(*own))) or part)
    count_in_files(text, 40, 3, gib(100))
    assert max(slices) == 101  # those of a run's tokens, and the one before
    monkeypatch.undo()
    monkeypatch.setattr(external, "LEAST_READ", 0)
    require_same(text, 40, 3, gib(100))


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_a_model_counted_in_files_is_the_same_one(corpus: Corpus, smoothing: str, any_memory: None):
    options = DEFAULTS | {"smoothing": smoothing, "prune": [0, 0, 1]}
    models = [
        NGram(vocabulary_size=len(corpus.vocabulary), order=3, unknown=True, **options | {"memory": memory})
        for memory in (None, gib(len(corpus.splits["train"]) // 3))
    ]
    for model in models:
        model.estimate(corpus)
    whole, stored = (model.state_dict() for model in models)
    assert all(torch.equal(whole[name], stored[name]) for name in whole)


def test_too_little_memory_is_reported_with_the_least_that_would_do():
    text = torch.zeros(20_000, dtype=torch.int64)
    with pytest.raises(
        UserError, match=r"^model\.memory=0\.0001: too little .* 20,000 tokens; give at least 0\.001,"
    ) as told:
        count_in_files(text, 1, 2, 0.0001)
    least = float(re.findall(r"at least ([\d.]+)", str(told.value))[0])
    assert [len(grams.keys) for grams in count_in_files(text, 1, 2, least)] == [1, 1]


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writing to /dev/full finds no room."""
    (tmp_path / "text").write_text("a b a\n")
    paths = [f"corpus.{split}={tmp_path / 'text'}" for split in ("train", "valid", "test")]
    options = ["corpus=text", *paths, "model=ngram", "model.memory=1", f"run_dir={tmp_path / 'run'}"]
    with monkeypatch.context() as patch:
        patch.setattr(external.tempfile, "TemporaryFile", partial(Path("/dev/full").open, "r+b"))
        message = command(*options).refused()
    told = r"error: .*: cannot be written \(No space left on device\), and counting takes up to .* GB; set TMPDIR to a "
    assert re.match(told, message)
    assert tempfile.gettempdir() in message
    assert command(*options).code == 0
