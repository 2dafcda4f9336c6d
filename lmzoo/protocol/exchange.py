"""Exchange of the log p of every token of a text in files."""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.files import input_stream, sha256
from lmzoo.corpus import Vocabulary
from lmzoo.corpus.vocabulary import reversed_order
from lmzoo.protocol.perplexity import logprob_error


def text_sha256(tokens: Tensor, vocabulary: Vocabulary) -> str:
    """The SHA-256 of (N,) tokens as words in UTF-8, joined by spaces, with `<eos>` at the end of lines."""
    return sha256(" ".join([vocabulary.words[token] for token in tokens.tolist()]).encode())


def encoded(splits: Mapping[str, tuple[Tensor, Tensor]], vocabulary: Vocabulary) -> bytes:
    """Serialize (N,) tokens and their (N,) log p in nats of each split by numpy's savez.

    The arrays are, for each SPLIT: ``SPLIT``, log p as computed by the model, and ``SPLIT_sha256``, the `text_sha256`.
    """
    arrays: dict[str, np.ndarray] = {}
    for split, (tokens, logprobs) in splits.items():
        arrays[split] = logprobs.cpu().numpy()
        arrays[f"{split}_sha256"] = np.array(text_sha256(tokens, vocabulary))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # pyright: ignore[reportArgumentType]
    return buffer.getvalue()


def read_logprobs(path: Path, split: str, tokens: Tensor, vocabulary: Vocabulary) -> Tensor:
    """The (N,) float64 log p of (N,) tokens of a split, from a file of `encoded` or of another program.

    Raises: UserError if the file is damaged, lacks the split, is of another text, or has invalid log p.
    """
    name = f"{split}_sha256"
    try:
        with input_stream(path) as stream, NpzFile(stream, own_fid=False, allow_pickle=False) as file:
            if not {split, name} <= set(file.files):
                raise UserError(f"{path}: has no arrays {split} and {name}", "write both, or choose another --split")
            values, checksum = file[split], str(file[name].astype(str))
    except UserError:
        raise
    except Exception as error:  # numpy raises all kinds for files that it did not write
        problem = f"{path}: damaged, or not a file of numpy's savez"
        raise UserError(problem, "write it again with lmzoo score --export") from error
    if values.dtype.kind != "f" or values.ndim != 1:
        shape = " × ".join(map(str, values.shape)) or "one"
        raise UserError(f"{path}: {split} is {shape} of {values.dtype}", "write one row of floating-point numbers")
    if len(values) != len(tokens):
        problem = f"{path}: has log p of {len(values):,} tokens of {split}, where the run reads {len(tokens):,}"
        raise UserError(problem, "count each word and one <eos> a line, and name a run of that text")
    if checksum.lower() != text_sha256(tokens, vocabulary):
        problem, advice = f"is of another text of {split}, or other words, than the run", "name a run of that text"
        if checksum.lower() == text_sha256(tokens[reversed_order(tokens)], vocabulary):
            problem = f"is of lines read from their {'beginning' if vocabulary.form.reverse else 'end'}, unlike the run"
            advice = "choose a file and runs of one direction (corpus.reverse)"
        raise UserError(f"{path}: {problem}", advice)
    logprobs = torch.from_numpy(values.astype(np.float64))
    if problem := logprob_error(logprobs):
        raise UserError(f"{path}: {split}: {problem}", "write natural log p of each token")
    return logprobs
