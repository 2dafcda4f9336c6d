"""The corpus that the runs of a sweep share, which is read once."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmzoo.corpus import Corpus

_last: "ContextVar[dict[str, Corpus] | None]" = ContextVar("_last", default=None)


@contextlib.contextmanager
def reuse_corpus() -> Iterator[None]:
    """A context, such as that of a sweep, in which a corpus with the options of the last one is not read again."""
    token = _last.set({})
    try:
        yield
    finally:
        _last.reset(token)


def last_corpus(options: Mapping[str, Any], load: "Callable[[Mapping[str, Any]], Corpus]") -> "Corpus":
    """The last corpus if it has these options and `reuse_corpus` is in effect; else the corpus that is loaded."""
    if (last := _last.get()) is None:
        return load(options)
    key = json.dumps(options, sort_keys=True, default=str)
    if key not in last:
        corpus = load(options)
        last.clear()  # not before, as an exception may come
        last[key] = corpus
    return last[key]
