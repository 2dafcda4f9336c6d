"""A vocabulary, with its processing of texts, as a fast tokenizer of Hugging Face."""

from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS, Vocabulary
from lmzoo.corpus.form import character
from lmzoo.corpus.subwords import BEGIN, BYTES, Subwords
from lmzoo.corpus.tokenizer import NUMBER, PATTERNS
from lmzoo.corpus.vocabulary import EOS_ID, UNK
from lmzoo.huggingface.extra import imported


def tokenizer(vocabulary: Vocabulary) -> Any:
    """A ``tokenizers.Tokenizer`` with the indices of a vocabulary; like GPT-2's, it adds no sentence boundaries.

    `<eos>` in a text is this word, and so is `<unk>` if words are not cut. An unknown word is `<unk>`, or an error
    without it.

    Raises: UserError for a tokenizer of words followed by a cut into characters.
    """
    t, form = imported("tokenizers"), vocabulary.form
    if form.tokenizer and form.unit == "char":
        raise UserError(f"corpus.tokenizer={form.tokenizer} corpus.unit=char: no tokenizer of Hugging Face does both")
    normalize, pre, decoders = t.normalizers, t.pre_tokenizers, t.decoders
    sigma = normalize.Replace(t.Regex(r"(?<=\p{L})Σ(?!\p{L})"), "ς")  # as Python has it at the end of a word
    steps = [sigma, normalize.Lowercase()] if form.lower or form.tokenizer == "ptb" else []
    if form.tokenizer in ("ptb", "treebank"):
        steps.append(normalize.Replace("’", "'"))
    if form.tokenizer == "ptb":
        steps.append(normalize.Replace(t.Regex(_oniguruma(NUMBER.pattern)), "N"))
    if form.tokenizer:
        split = pre.Split(t.Regex(_oniguruma(PATTERNS[form.tokenizer].pattern)), "removed", invert=True)
    else:
        split = pre.WhitespaceSplit() if form.spaced else pre.Split(t.Regex("(?m)."), "isolated")
    if form.pieces:
        split = pre.Sequence([split, pre.Metaspace(BEGIN, "always", split=False)])
    model = _pieces(t.models, form.pieces, vocabulary) if form.pieces else _words(t.models, vocabulary)
    made = t.Tokenizer(model)
    made.normalizer, made.pre_tokenizer = normalize.Sequence(steps), split
    if form.pieces:
        made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(BEGIN, "always")])
    elif not form.of_words:
        made.decoder = decoders.Fuse()
    made.add_special_tokens(special_words(vocabulary))
    return made


def _oniguruma(pattern: str) -> str:
    """A regular expression of Python for Oniguruma, whose own \\w lacks numbers such as ² and has marks."""
    own = r"\p{L}\p{N}"
    for python, oniguruma in (
        (r"[^\W_]", f"[{own}]"), (r"[\w", f"[{own}_"), (r"[^\w", f"[^{own}_"), (r"\w", f"[{own}_]")
    ):  # fmt: skip
        pattern = pattern.replace(python, oniguruma)
    return pattern


def special_words(vocabulary: Vocabulary) -> list[str]:
    """`<eos>`, and `<unk>` if a text can have it as one token."""
    return [word for word in (EOS, UNK) if word == EOS or (vocabulary.form.of_words and word in vocabulary.index)]


def _words(models: Any, vocabulary: Vocabulary) -> Any:
    """A model of whole words or characters."""
    names = vocabulary.words if vocabulary.form.of_words else map(character, vocabulary.words)
    return models.WordLevel({name: number for number, name in enumerate(names)}, unk_token=UNK)


def _pieces(models: Any, pieces: Subwords, vocabulary: Vocabulary) -> Any:
    """A model of subwords, with bytes for characters that have none."""
    if pieces.kind == "unigram":
        lowest = min(pieces.scores.values())  # on which the penalty of an unknown character depends
        scores = {EOS: lowest, **pieces.scores, **dict.fromkeys(BYTES, lowest)}
        return models.Unigram([(word, scores[word]) for word in vocabulary.words], EOS_ID, byte_fallback=True)
    merges = [
        (piece[:place], piece[place:])
        for piece in sorted(pieces.scores, key=lambda piece: -pieces.scores[piece])
        for place in range(1, len(piece))
        if piece[:place] in pieces.scores and piece[place:] in pieces.scores
    ]
    return models.BPE(vocab=vocabulary.index, merges=merges, byte_fallback=True)
