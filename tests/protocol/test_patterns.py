"""Patterns against regular expressions over single letters."""

import itertools
import re

import pytest

from lmzoo.core.errors import UserError
from lmzoo.corpus import Vocabulary
from lmzoo.corpus.form import Form
from lmzoo.corpus.subwords import Subwords
from lmzoo.protocol import patterns
from lmzoo.protocol.patterns import Automaton, Pattern

WORDS = ["<eos>", "a", "b", "c", "d"]
VOCABULARY = Vocabulary(WORDS)
STRINGS = ["".join(letters) for n in range(6) for letters in itertools.product("abcd", repeat=n)]

EXPRESSIONS = {
    "a b": "ab",
    "_ b ___": ".b.",
    "…": ".*",
    "... a …": ".*a.*",
    "a … b": "a.*b",
    "… a _ b …": ".*a.b.*",
    "[a|b] not [ c | d ] d": "[ab][^cd]d",
    "… a b … b a …": ".*ab.*ba.*",
    "… … a": ".*a",
    "not (… a …)": "[^a]*",
    "… a … & … b …": "(?=.*a).*b.*",
    "… a … & not (… b b …) & 2..4": "(?=.*a)(?!.*bb).{2,4}",
    "..2": ".{0,2}",
    "4..": ".{4,}",
    "c … & 2..2": "c.",
}


def accepts(automaton: Automaton, tokens: list[int]) -> bool:
    table, state = automaton.table()[:, automaton.classes].tolist(), 0
    for token in tokens:
        state = table[state][token] if state >= 0 else -1
    low, high = automaton.shortest, automaton.longest
    long_enough = low <= len(tokens) and (high is None or len(tokens) <= high)
    return state >= 0 and long_enough and bool(automaton.accepting[state])


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_automaton_accepts_what_the_expression_matches(text: str):
    automaton, wanted = Pattern.parse(text, VOCABULARY).automaton(), re.compile(EXPRESSIONS[text])
    for letters in STRINGS:
        tokens = [WORDS.index(letter) for letter in letters]
        assert accepts(automaton, tokens) == bool(wanted.fullmatch(letters)), letters


@pytest.mark.parametrize(("text", "states"), [("…", 1), ("… a … b …", 3), ("… a b c …", 4), ("not (… a …)", 1),
                                              ("a _ b", 4), ("… a … & … b …", 4)])  # fmt: skip
def test_automata_are_as_small_as_can_be(text: str, states: int):
    assert len(Pattern.parse(text, VOCABULARY).automaton().accepting) == states


@pytest.mark.parametrize("text", ["a … _ b & 2..4", "_ a", "… [c|d]"])
def test_an_alignment_has_one_path_for_each_sentence(text: str):
    pattern = Pattern.parse(text, VOCABULARY)
    aligned, automaton = pattern.alignment(), pattern.automaton()
    for letters in STRINGS:
        tokens = [WORDS.index(letter) for letter in letters]
        paths = {0: 1}
        for token in tokens:
            further: dict[int, int] = {}
            edges = zip(aligned.source.tolist(), aligned.target.tolist(), aligned.allowed, strict=True)
            for source, target, allowed in edges:
                if source in paths and allowed[aligned.classes[token]]:
                    further[target] = further.get(target, 0) + paths[source]
            paths = further
        inside = aligned.shortest <= len(tokens) <= (aligned.longest or 9)
        assert paths.get(len(aligned.accepting) - 1, 0) * inside == accepts(automaton, tokens)


def test_lines_read_backwards_have_the_mirrored_automaton():
    backwards = Pattern.parse("a b … c", Vocabulary(WORDS, Form(reverse=True))).automaton()
    for letters, accepted in (("cba", True), ("cdba", True), ("abc", False)):
        assert accepts(backwards, [WORDS.index(letter) for letter in letters]) is accepted


def test_signs_may_be_words_and_characters_are_cut():
    vocabulary = Vocabulary(["<eos>", "_", "[a]", "not", "(", "&"])
    assert accepts(Pattern.parse(r"\_ \[a] not \& (", vocabulary).automaton(), [1, 2, 3, 5, 4])
    characters = Vocabulary(["<eos>", *"abc"], Form(unit="char"))
    assert accepts(Pattern.parse("ab _ …", characters).automaton(), [1, 2, 3])
    spaced = Vocabulary(["<eos>", *"abc", "<space>"], Form(unit="char"))
    assert accepts(Pattern.parse("ab <space> c", spaced).automaton(), [1, 2, 4, 3])
    with pytest.raises(UserError, match="'ab' and 'c' would be joined without a space"):
        Pattern.parse("… ab c", characters)
    characters = Vocabulary(["<eos>", *"abc()not"], Form(unit="char"))
    with pytest.raises(UserError, match="not around one pattern"):
        Pattern.parse("not (ab", characters)


def test_an_item_is_a_word_where_a_piece_inside_words_looks_like_it():
    scores = {"▁": -9.0, "t": -9.0, "h": -9.0, "e": -9.0, "th": -1.0, "the": -2.0, "▁the": -3.0}
    pieces = Subwords("bpe", scores)
    vocabulary = Vocabulary(pieces.words, Form(unit="bpe", pieces=pieces))
    for text in ("the", "[the]"):
        assert accepts(Pattern.parse(text, vocabulary).automaton(), [vocabulary.index["▁the"]])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a x b", "pattern: 'x' is not in the vocabulary"),
        ("a [b|xylophone]", "pattern: 'xylophone' is not in the vocabulary"),
        ("a <eos>", "pattern: <eos> ends every sentence"),
        ("[a b] c", "pattern: 'a b' in [ ] is not one word"),
        ("[] c", "pattern: '' in [ ] is not one word"),
        ("[a c", "pattern: '[a' has no matching ]"),
        ("a not [b|c", "pattern: 'not [b|c' has no matching ]"),
        ("[a]b", "pattern: '[a]b' has no matching ]"),
        ("not (a", "pattern 'not (a': 'not (' is not around one pattern, closed by ')'"),
        ("not (a & b)", "pattern 'not (a': 'not (' is not around one pattern"),
        ("a not (b)", "pattern 'a not (b)': 'not (' is not around one pattern"),
        ("not (a not (b))", "'not (' is not around one pattern"),
        ("not ( )", "is empty"),
        ("", "pattern '': is empty"),
        ("a & ", "pattern 'a & ': is empty beside an &"),
        ("a b & 3..", "no sentence matches"),
        ("5..4", "no sentence matches"),
        ("… & 2001..", "pattern: 2001.. is over 2,000 words"),
        ("… a … & not (… a …)", "no sentence matches"),
    ],
)
def test_mistakes_are_named(text: str, problem: str):
    with pytest.raises(UserError, match=re.escape(problem)):
        Pattern.parse(text, VOCABULARY).automaton()


def test_too_many_states(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(patterns, "MOST_STATES", 20)
    with pytest.raises(UserError, match="over 20 states"):
        Pattern.parse("… a _ _ _ _ b …", VOCABULARY).automaton()
