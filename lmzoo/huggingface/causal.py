"""Causal transformers of Hugging Face as language models of whole words.

A transformer predicts pieces of words, and that a word is over shows only by the white space with which the next piece
begins. So this probability is moved from the next word to the word itself: Pimentel & Meister (2024), "How to compute
the probability of a word", https://arxiv.org/abs/2406.14561. With the pieces s of a word w after the pieces h, and
over(h) the probability that the piece after h begins with white space, or is the end of the text,

    p(w | h) = p(s | h) over(h s) / over(h),

and p(end | h) / over(h) is that of the end of the line. At the beginning of a line, over(h) is the probability of the
pieces that can stand there. The sum over all words and the end is 1, except for the share of pieces that no line of
words has, such as line feeds, and of other ways to cut a word than the tokenizer's.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from lmzoo.core.errors import UserError, one_line, shortened
from lmzoo.corpus.form import Form
from lmzoo.corpus.vocabulary import EOS, EOS_ID, Lexicon
from lmzoo.huggingface.extra import imported
from lmzoo.protocol.model import LanguageModel, State

CONTEXT = 1024
"""The context in pieces of a transformer without a limit of its own."""

POSITIONS = 1024
"""The number of positions whose predictions are in memory at once, if the context is not longer."""

_ANCHOR = "a"
"""A word before another one."""


class Pieces:
    """The pieces into which a tokenizer cuts words.

    Attributes:
        begin, end: the tokens before and after a text.
        over: (V,) bool, the pieces that show that the word before them is over, with ``end``.
        first: (V,) bool, the pieces that can begin a line, with ``end``.

    Args:
        size: V, the number of predicted tokens.
        name: the name of the model for errors.

    Raises: UserError if the tokenizer has no token for the end, or does not tell where words begin.
    """

    def __init__(self, tokenizer: Any, size: int, name: str):
        self._name, self._cut = name, dict[tuple[str, bool], list[int]]()
        if not getattr(tokenizer, "is_fast", False) or tokenizer.eos_token_id is None:
            raise UserError(f"{name}: has no fast tokenizer with a token for the end of a text")
        self._backend, self._unknown = tokenizer.backend_tokenizer, tokenizer.unk_token_id
        self._backend.encode_special_tokens = True  # their names in a text are text
        self._backend.no_truncation()  # with which a tokenizer may have been saved, and with padding
        self._backend.no_padding()
        self.end = tokenizer.eos_token_id
        self.begin = self.end if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        decoder, anchor = self._backend.decoder, self.encode(_ANCHOR)
        decode = decoder.decode if decoder else " ".join
        before = [self._backend.id_to_token(token) for token in anchor]
        length, ordinary = len(decode(before)), set(range(size)).difference(tokenizer.all_special_ids)
        begins, self.first = torch.zeros(size, dtype=torch.bool), torch.zeros(size, dtype=torch.bool)
        for token in ordinary:
            if piece := self._backend.id_to_token(token):
                begins[token] = decode([*before, piece])[length : length + 1].isspace()
        self.first[list(ordinary)] = True
        self.first &= begins == begins[anchor[0]]
        self.over = begins.clone()
        self.over[self.end] = self.first[self.end] = True
        self.of(_ANCHOR, False)

    def encode(self, text: str) -> list[int]:
        """The pieces of a text, without those before and after it."""
        return self._backend.encode(text, add_special_tokens=False).ids

    def of(self, word: str, is_first: bool) -> list[int]:
        """The pieces of a word at the beginning of a line or elsewhere.

        Raises: UserError if they do not tell where the word begins and ends.
        """
        if (pieces := self._cut.get((word, is_first))) is None:
            before = [] if is_first else self.encode(_ANCHOR)
            whole = self.encode(word if is_first else f"{_ANCHOR} {word}")
            pieces, allowed = whole[len(before) :], self.first if is_first else self.over
            if whole[: len(before)] != before or not pieces or not allowed[pieces[0]] or self.over[pieces[1:]].any():
                problem = f"{self._name}: its tokenizer does not tell where '{shortened(word)}' begins and ends"
                raise UserError(problem, "words must be separated by white space, and pieces begin with it")
            self._cut[word, is_first] = pieces
        return pieces

    def check(self, words: Sequence[str], pieces: list[int]) -> None:
        """Raise a UserError if the pieces of a line are not those of its words, each cut by itself."""
        if self.encode(" ".join(words)) != pieces:
            problem = f"{self._name}: its tokenizer splits words differently next to their neighbours"
            raise UserError(f"{problem}, in '{shortened(' '.join(words))}'", "leave that line out")

    def lack(self, word: str) -> bool:
        """Whether a word has a part that the tokenizer does not know."""
        return self._unknown != self.end and self._unknown in self.of(word, False)


class RawText(Form):
    """Words as they are written, separated by white space; no other tokenizer has been there before."""

    tokenizer: Literal["raw"] = "raw"  # pyright: ignore[reportIncompatibleVariableOverride]

    def cleaned(self, line: str) -> str:
        return line


class _Line(NamedTuple):
    """A line so far.

    Attributes:
        pieces: its pieces, those of earlier windows included.
        bounds: where its words of this window begin, and where the last one ends.
    """

    pieces: list[int]
    bounds: list[int]


class CausalTransformer(LanguageModel):
    """A trained transformer that scores whole words of raw text, each line by itself; Radford et al. (2019) and others.

    Words are as they are written, separated by white space. There is no list of all words: the vocabulary grows by
    those of the texts that are read. `<eos>` is the end of a text, often of a whole document.

    A line longer than the context of C pieces is read in windows, so that a piece has from C/2 to C others before it.

    Args:
        network: a causal model of transformers.
        tokenizer: its fast tokenizer, which marks the beginning of a word by the white space before it.
        name: the name of the model for errors.

    Raises: UserError if the network is not causal, or the tokenizer is of another kind.
    """

    forgets_at_eos = True
    open_vocabulary = True
    over: Tensor
    first: Tensor

    def __init__(self, network: Any, tokenizer: Any, name: str):
        super().__init__()
        self.network, self.name = network.float().eval().requires_grad_(False), name
        self.vocabulary = Lexicon(RawText())
        self.pieces = Pieces(tokenizer, network.get_output_embeddings().out_features, name)
        self.register_buffer("over", self.pieces.over, persistent=False)
        self.register_buffer("first", self.pieces.first, persistent=False)
        self.context: int = getattr(network.config, "max_position_embeddings", None) or CONTEXT
        probe = [self.pieces.begin, *self.pieces.of(_ANCHOR, True)]
        same = torch.tensor([[*probe, piece] for piece in (self.pieces.end, probe[-1])], device=self.device)
        with torch.no_grad():
            logits = self.network(input_ids=same).logits[:, :-1]
        if not torch.allclose(logits[0], logits[1], rtol=1e-5, atol=1e-5):
            raise UserError(f"{name}: is not a causal model, as its predictions depend on later words")

    @property
    def vocabulary_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - it grows
        """The number of words so far."""
        return len(self.vocabulary)

    @property
    def window_tokens(self) -> int:
        return 256

    def unlisted(self) -> Tensor:
        return torch.tensor([word != EOS and self.pieces.lack(word) for word in self.vocabulary.words])

    def initial_state(self, batch_size: int) -> State:
        return self._state([[self.pieces.begin]] * batch_size)

    def _state(self, lines: list[list[int]]) -> State:
        """(B, L) pieces of the line so far, padded, and their (B,) numbers."""
        longest = max(map(len, lines), default=1)
        padded = torch.tensor([line + [self.pieces.end] * (longest - len(line)) for line in lines], dtype=torch.int64)
        return padded.view(-1, longest).to(self.device), torch.tensor([*map(len, lines)]).long().to(self.device)

    @torch.no_grad()
    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        lines: list[_Line] = []
        last: list[list[int]] = []
        for row, before, length in zip(tokens.tolist(), state[0].tolist(), state[1].tolist(), strict=True):
            line = _Line(before[:length], [length])
            for place, word in enumerate(row):
                is_first = len(line.pieces) == 1
                line.pieces.extend(self.pieces.of(self.vocabulary.words[word], is_first) if word else [self.pieces.end])
                line.bounds.append(len(line.pieces))
                if word == EOS_ID:
                    if line.bounds[0] == 1:
                        words = row[place + 1 - len(line.bounds) + 1 : place]
                        self.pieces.check([self.vocabulary.words[word] for word in words], line.pieces[1:-1])
                    lines.append(line)
                    line = _Line([self.pieces.begin], [1])
            if len(line.bounds) > 1:
                lines.append(line)
            last.append(line.pieces)
        scores = [self._words(line, predicted) for line, predicted in zip(lines, self._predictions(lines), strict=True)]
        return torch.cat(scores).view(tokens.shape), self._state(last)

    def predict(self, state: State) -> Tensor:
        raise UserError(f"{self.name}: predicts subwords, and has no word vocabulary", "choose a run, or score a text")

    def _words(self, line: _Line, predicted: Tensor) -> Tensor:
        """(n + 1, 2) `_predictions` of a line -> log p of its words."""
        logprobs, over = predicted.unbind(1)
        if line.pieces[-1] == self.pieces.end and len(line.pieces) > 1:
            over[-1] = 0  # nothing follows the end
        until = torch.cat([logprobs.new_zeros(1), logprobs[:-1].cumsum(0)]) + over
        return until[torch.tensor(line.bounds, device=until.device) - line.bounds[0]].diff()

    def _predictions(self, lines: list[_Line]) -> list[Tensor]:
        """For each line, (n + 1, 2): log p of each of n new pieces and, before each and after all, log over(h)."""
        found: list[Tensor] = []
        batch: list[tuple[_Line, int, int, int]] = []
        for window in ((line, *places) for line in lines for places in self._windows(line)):
            longest = max(high - start for _, start, _, high in [*batch, window])
            if batch and longest * (len(batch) + 1) > POSITIONS:
                found += self._predict(batch)
                batch.clear()
            batch.append(window)
        found += self._predict(batch)
        return [*torch.cat(found).split([len(line.pieces) - line.bounds[0] + 1 for line in lines])]

    def _windows(self, line: _Line) -> Iterator[tuple[int, int, int]]:
        """The first piece of a window, and the first and last piece after which to predict, from 0, the last excluded.

        They depend on the place in the line alone, not on where the line was cut before.
        """
        half = max(1, self.context // 2)
        low, high = line.bounds[0] - 1, len(line.pieces)
        while low < high:
            start = max(0, low // half - 1) * half
            end = min(high, start + 2 * half)
            yield start, low, end
            low = end

    def _predict(self, batch: list[tuple[_Line, int, int, int]]) -> Iterator[Tensor]:
        """The part of `_predictions` of each window, by one call of the network."""
        ids, _ = self._state([line.pieces[start:high] for line, start, _, high in batch])
        logits = self.network(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits
        for (line, start, low, high), row in zip(batch, logits, strict=True):
            z = row[low - start : high - start].float()
            following = torch.tensor([*line.pieces[low + 1 : high + 1], 0][: high - low], device=self.device)
            total = z.logsumexp(1)
            over = z.masked_fill(~self.over, -torch.inf).logsumexp(1)
            if low == 0:
                over[0] = z[0].masked_fill(~self.first, -torch.inf).logsumexp(0)
            logprobs = z.gather(1, following[:, None])[:, 0] - total
            yield torch.stack([logprobs, over - total], 1).double()


def load(name: str, trusted: bool = False) -> CausalTransformer:
    """Load a causal transformer from a folder or a name, from safetensors.

    Args:
        trusted: whether code that comes with the model may be run.

    Raises: UserError if there is none, or as `CausalTransformer` does.
    """
    transformers = imported("transformers")
    imported("transformers.utils.logging").disable_progress_bar()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=trusted)
        network = transformers.AutoModelForCausalLM.from_pretrained(
            name, trust_remote_code=trusted, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        needs_code = not trusted and "trust_remote_code" in str(error)
        problem = f"{name}: cannot be loaded by transformers ({one_line(error)})"
        if needs_code:
            problem = f"{name}: comes with code of its own, which is not run"
        raise UserError(problem, f"name it hf-code:{name} if you trust the code" if needs_code else None) from None
    return CausalTransformer(network, tokenizer, name)
