"""The HTML of the page: the figures that it holds, and texts that would be markup or templates."""

import base64
import csv
import dataclasses
import math
import re
from html import unescape
from html.parser import HTMLParser

import pytest

from lmzoo.page import data, html
from lmzoo.page.zoo import Zoo

EVIL = "<script>alert(1)</script>\"'&lt;${alert(1)}{{value}}`\\\x1b[31m\u202e"
"""A word of a stranger's vocabulary."""


class Read(HTMLParser):
    """The tags of some HTML, which must be closed in their order, and its text."""

    def __init__(self, markup: str):
        super().__init__()
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(markup)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def token(word: str, p: float | None = 0.25, known: bool = True) -> data.Token:
    return data.Token(word, p, known, [(word, 0.5), ("the", 0.25)])


PARTS = {
    "header": lambda: html.card(EVIL, "", ""),
    "surprisal": lambda: html.surprisal(EVIL, [[token(EVIL), token(EVIL, 0.0, False), token("<eos>")]]),
    "samples": lambda: html.sampled(EVIL, [data.Sampled(EVIL, [token(EVIL, None)], [token(EVIL)])]),
    "next": lambda: html.next_words({EVIL: data.Next("", 1, [(EVIL, 1.0)], EVIL)}, "begun"),
    "begun": lambda: html.next_words({EVIL: data.Next(EVIL, 0, [], None)}, "begun"),
    "states": lambda: html.sentence(data.SentenceStates(
        [data.WordStates(EVIL, False, 3, [(3, 1.0)], [(3, 1.0)], None),
         data.WordStates(EVIL, True, 3, [(3, 0.4)], [], data.Turn(0, 0.5, 3, 0.1, 0.6))],
        1, 0.5, {3: [(EVIL, 0.7)]},
    )),
    "neighbours": lambda: html.neighbours(EVIL, [(EVIL, 0.5)]),
    "answers": lambda: html.answers(EVIL, ([(EVIL, 0.5)], [(EVIL, -0.5)]), EVIL),
    "note": lambda: html.note(EVIL),
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_a_text_is_never_markup_nor_a_template(part: str):
    markup = PARTS[part]()
    assert not set("{}$`\\\x1b\u202e") & set(markup)
    read = Read(markup)
    assert "script" not in read.tags
    assert "<script>alert(1)</script>" in read.text
    assert "${alert(1)}{{value}}`\\\\x1b[31m\\u202e" in read.text


def test_escaping_can_be_undone():
    assert unescape(html.escape("<a> & ${b} {{c}} \\")) == "<a> & ${b} {{c}} \\"


def test_a_text_has_its_figures_and_its_colours():
    markup = html.surprisal("lstm", [[token("a", 0.25), token("b", 2**-20, known=False)], [token("<eos>", 1.0)]])
    assert "<b>7.33</b> bits a word, perplexity 161.3, 1 unknown" in markup
    assert [float(heat) for heat in re.findall(r"--heat:([\d.]+)", markup)] == [0.125, 1, 0]
    assert re.findall(r'class="(word[^"]*)"', markup) == ["word", "word unknown", "word end"]
    assert "p = 0.25 (1 in 4): <b>2.0 bits</b>" in markup
    assert markup.count("unknown to the model, which reads &lt;unk&gt;") == 1
    assert "perplexity ∞" in html.surprisal("ngram", [[token("a", 0.0)]])


def test_words_have_their_bits_below_and_lines_their_sums():
    markup = html.surprisal("lstm", [[token("a", 0.25), token("<eos>", 0.5)], [token("b", 0.125), token("<eos>", 1.0)]])
    assert re.findall(r'data-bits="(.*?)"', markup) == ["2.0", "1.0", "3.0", "0.0"]
    assert re.findall(r"<small>(.*?)</small>", markup) == ["3.0 bits, 1.50 a word", "3.0 bits, 1.50 a word"]
    assert "<small>" not in html.surprisal("lstm", [[token("a", 0.25)]])


def test_the_file_that_is_saved_has_every_word_of_every_run():
    scored = {"a, b": [[token('"x"', 0.25, known=False), token("<eos>", 0.0)]], "c": [[token(EVIL, 0.5)]]}
    encoded = re.findall(r'download="surprisal.csv" href="data:text/csv;base64,(.*?)"', html.downloads(scored))
    rows = list(csv.DictReader(base64.b64decode(encoded[0]).decode().splitlines()))
    assert [list(row.values()) for row in rows] == [
        ["a, b", "1", "1", '"x"', "false", "2"],
        ["a, b", "1", "2", "<eos>", "true", "inf"],
        ["c", "1", "1", EVIL, "true", "1"],
    ]


def test_bars_are_as_long_as_their_numbers():
    ranked = [("a", 0.5), ("b", 0.25), ("c", -0.1)]
    for most, widths in ((None, [100, 50, 0]), (1.0, [50, 25, 0]), (0.25, [100, 100, 0])):
        markup = html.bars(ranked, "{:.2f}".format, most)
        assert [float(width) for width in re.findall(r"width:([\d.]+)%", markup)] == widths
        assert re.findall(r'"value">(.*?)<', markup) == ["0.50", "0.25", "-0.10"]
    assert html.bars([], str) == '<ol class="bars"></ol>'


def test_bars_of_several_models_have_one_scale():
    found = {name: data.Next("", 1, [("a", p)], None) for name, p in (("ngram", 0.5), ("lstm", 0.1))}
    assert re.findall(r"width:([\d.]+)%", html.next_words(found, "")) == ["100.0", "20.0"]


def test_a_share_is_reported_words_alone_that_begin_so():
    assert "<span>50% begin with t; of these</span>" in html.next_words(
        {"a": data.Next("t", 0.5, [("the", 1)], None)}, ""
    )
    assert "begin with" not in html.next_words({"a": data.Next("t", 0, [], None)}, "")


def test_words_that_can_be_typed_are_buttons():
    markup = html.bars([("a", 0.5), ("<eos>", 0.3), ("<unk>", 0.2)], str, typed="begun")
    assert re.findall(r'data-type-into="begun" data-word="(.*?)"', markup) == ["a"]
    assert "button" not in html.bars([("a", 0.5)], str)


def test_states_are_as_wide_as_they_are_likely():
    markup = html.stack([(4, 0.6), (5, 0.3)], {4: [("<unk>", 0.9), ("x", 0.1)], 5: []}, 5)
    assert re.findall(r'class="(segment[^"]*)".*?flex-grow:([\d.]+)', markup) == [
        ("segment", "0.6000"), ("segment on-path", "0.3000"), ("segment rest", "0.1000"),
    ]  # fmt: skip
    assert "<b>4</b><i>x</i>" in markup
    assert html.stack([], {}, 5) == ""


def test_the_header_names_the_runs_with_their_figures(zoo: Zoo):
    text = re.sub(r"<.*?>", "", html.header(zoo))
    for name, lm in zoo.models.items():
        assert lm.results is not None
        kind = lm.run.config()["model"]["name"]
        figure = f"{lm.results['perplexity']['valid']:,.1f}"
        assert f"{name} model={kind}, perplexity of valid {figure} (context sentence)" in text
    assert "ppmi method=ppmi, 4 dimensions" in text
    assert "cannot be compared" not in text


def test_perplexities_of_stream_and_sentence_runs_are_distinguished(zoo: Zoo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(zoo.models, "lstm", dataclasses.replace(zoo.models["lstm"], context="stream"))
    text = re.sub(r"<.*?>", "", html.header(zoo))
    assert re.findall(r"\(context (\w+)\)", text) == ["sentence", "stream", "sentence", "sentence", "sentence"]
    assert "perplexities with context stream and context sentence cannot be compared" in text


@pytest.mark.parametrize(
    ("p", "text"),
    [(1, "100%"), (0.523, "52%"), (0.0996, "10%"), (0.0994, "9.9%"), (0.001, "0.1%"), (0.0009, "<0.1%"), (0, "0.0%")],
)
def test_probabilities_are_written_in_percent(p: float, text: str):
    assert html.percent(p) == text


def test_other_numbers():
    assert [html.number(value) for value in (1234.56, 0.04, math.inf)] == ["1,234.6", "0.0", "∞"]
    assert [html.probability(p) for p in (0.75, 0.01, 0.0)] == ["0.75", "0.01 (1 in 100)", "0"]


def test_gaps_have_bars_and_sentences():
    found = data.Filled(-12.345, [[(EVIL, 0.75), ("dog", 0.25)], None], [(f"the {EVIL} dog", 0.5)])
    read = Read(html.filled(EVIL, found))
    assert "script" not in read.tags
    for part in ("log p = -12.35 nats", "gap 1", "gap 2", "any number of words", "75%", "50%"):
        assert part in read.text
