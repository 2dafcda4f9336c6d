"""Labelled words in columns and CoNLL-U: what is read, what is refused with its line, and what stays as it was."""

import gzip
import re
from pathlib import Path

import pytest

from lmzoo.core.errors import UserError
from lmzoo.labels.columns import Columns, ColumnText
from lmzoo.labels.formats import Layout

NER = Columns(0, 3, (1,))
TAGS = Columns(0, 1)
UNIVERSAL = Columns(1, 3)

CONLLU = """# text = We don't
1\tWe\twe\tPRON\tPRP\t_\t3\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadv\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t2:x\t_
# in the midst of a sentence
4\ta b\thome\tNOUN\tNN\t_\t2\tobl\t_\t_

1\tHe\the\tPRON\tPRP\t_\t0\troot\t_\t_
"""


def read(folder: Path, text: str, columns: Columns, name: str = "a.txt", **options: object) -> ColumnText:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return ColumnText(path, columns, **options)  # pyright: ignore


def words(text: ColumnText) -> list[list[tuple[str, str]]]:
    return [[*zip(s.words, s.labels, strict=True)] for s in text.sentences]


def refused(folder: Path, text: str, columns: Columns, name: str = "a.txt", **options: object) -> str:
    with pytest.raises(UserError) as error:
        read(folder, text, columns, name, **options)
    return str(error.value).removeprefix(f"{folder}/{name}: ")


@pytest.mark.parametrize("name", ["a.conllu", "a.conll", "A.CONLLU", "a.conllu.gz", "a.txt"])
def test_conllu_is_known_by_its_name_or_its_first_word(tmp_path: Path, name: str):
    text = read(tmp_path, CONLLU, UNIVERSAL, name)
    assert words(text) == [
        [("We", "PRON"), ("do", "AUX"), ("n't", "PART"), ("a b", "NOUN")], [("He", "PRON")]
    ]  # fmt: skip
    assert text.written(s.labels for s in text.sentences).decode() == CONLLU
    assert "\tX\tNN\t" in text.written([list("ABCX"), ["Y"]]).decode()


def test_conllu_that_begins_with_a_range_or_an_empty_node_is_known(tmp_path: Path):
    rest = "\t_" * 9 + "\n"
    for first in ("1-2", "0.1"):
        text = read(tmp_path, first + rest + "1\tdo\tdo\tAUX" + "\t_" * 6 + "\n", UNIVERSAL)
        assert words(text) == [[("do", "AUX")]]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("2 do do AUX VBP _ 0 root _ _", "has 1 of the ten columns of CoNLL-U; they are separated by tabs"),
        ("2\tdo\tdo\tAUX", "has 4 of the ten columns"),
        ("x" + "\t_" * 9, "begins with 'x', no number of CoNLL-U"),
        ("2-" + "\t_" * 9, "begins with '2-', no number"),
        ("²" + "\t_" * 9, "begins with '²', no number"),
        ("1" + "\t_" * 9, "is word 1, and 2 comes next; an empty line ends a sentence"),
        ("3" + "\t_" * 9, "is word 3, and 2 comes next; an empty line ends a sentence"),
        ("\n2" + "\t_" * 9, "is word 2, and 1 comes next"),
        ("9" * 5000 + "\t_" * 9, "is word 9999999999999999999…, and 2"),
        ("2\t\t_\tX" + "\t_" * 6, "has no word in its column"),
        ("2\tdo\t_\t" + "\t_" * 6, "has no label in its column"),
    ],
)
@pytest.mark.parametrize("name", ["a.conllu", "a.conll"])
def test_what_conllu_does_not_have_is_refused_with_its_line(tmp_path: Path, name: str, line: str, why: str):
    lines = CONLLU.splitlines()
    text = "\n".join([*lines[:2], line])
    number = 3 + line.count("\n")
    assert refused(tmp_path, text, UNIVERSAL, name).startswith(f"line {number} {why}")


def test_conllu_with_spaces_in_place_of_all_tabs_is_refused(tmp_path: Path):
    spaces = CONLLU.replace("\t", " ")
    for name in ("a.conllu", "a.conll"):
        assert refused(tmp_path, spaces, UNIVERSAL, name).startswith("line 2 has 1 of the ten columns of CoNLL-U")
    assert refused(tmp_path, "# global.columns = ID FORM UPOS\n1\tWe\tPRON\n", TAGS).startswith("is CoNLL-U Plus")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tabs_alone_part_columns_where_there_are_tabs(tmp_path: Path, end: str):
    plain = "Anna\tNNP\tI-NP\t B-PER \nNew York\tNNP\tI-NP\tB-LOC\n \nin\tIN\t\tO\n"
    text = read(tmp_path, plain.replace("\n", end), NER)
    assert words(text) == [[("Anna", "B-PER"), ("New York", "B-LOC")], [("in", "O")]]
    assert text.written(s.labels for s in text.sentences).decode() == plain.replace("\n", end)
    assert text.written([["X", "Y"], ["Z"]]).decode() == plain.replace("B-PER", "X").replace("B-LOC", "Y").replace(
        "\tO\n", "\tZ\n"
    ).replace("\n", end)


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u2009", "\u0085"])
def test_other_blanks_than_spaces_and_tabs_part_no_columns(tmp_path: Path, blank: str):
    for part in (" ", "\t", "  "):
        plain = f"10{blank}000{part}B-M\n{blank}{part}O\n"
        text = read(tmp_path, plain, TAGS)
        assert words(text) == [[(f"10{blank}000", "B-M"), (blank, "O")]]
        assert text.written(s.labels for s in text.sentences).decode() == plain


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a X\nb Y Z\n", "line 2 has 3 columns, and line 1 has 2; columns are separated by spaces"),
        ("a X Q\n\nb Y\n", "line 3 has 2 columns, and line 1 has 3; columns are separated by spaces"),
        ("a\tX\nb\tY\t\n", "line 2 has 3 columns, and line 1 has 2; columns are separated by tabs"),
        ("a\tX\nb Y\n", "line 2 has 1 column, and line 1 has 2; columns are separated by tabs"),
        ("a X\nb\tY\n", "line 1 has 1 of the 2 columns that are needed"),
        ("New York X\nParis X\n", "line 2 has 2 columns, and line 1 has 3; columns are separated by spaces"),
        ("a\tX\nb\t \n", "line 2 has no label in its column"),
        ("a\tX\n\tY\n", "line 2 has no word in its column"),
        ("\u00a0\n", "empty"),
        ("# only\n", "no words in it"),
        ("-DOCSTART- -X-\n", "no words in it"),
    ],
)
def test_a_line_unlike_the_others_is_named(tmp_path: Path, text: str, why: str):
    assert refused(tmp_path, text, TAGS).startswith(why)


def test_a_tab_at_the_end_of_every_line_is_a_column_without_a_name(tmp_path: Path):
    assert words(read(tmp_path, "a\tX\t\nb\tY\t\n", TAGS)) == [[("a", "X"), ("b", "Y")]]


@pytest.mark.parametrize("line", ["-DOCSTART- -X- O O", "-DOCSTART- -X- -X- O", "-DOCSTART-", "-DOCSTART-\t-X-\tO\tO"])
def test_the_beginning_of_a_document_is_no_word(tmp_path: Path, line: str):
    plain = f"{line}\n\nU.K. NNP I-NP B-LOC\n{line}\n\nRome NNP I-NP B-LOC\n"
    text = read(tmp_path, plain, NER)
    assert words(text) == [[("U.K.", "B-LOC")], [("Rome", "B-LOC")]]
    assert text.left_out == "2 -DOCSTART- lines"
    assert text.written([["X"], ["Y"]]).decode() == plain.replace("B-LOC", "X", 1).replace("B-LOC", "Y", 1)


def test_comments_are_no_words_and_stay(tmp_path: Path):
    plain = "# id 7f domain=en\nAnna _ _ B-PER\n# a remark\nlives _ _ O\n\n#id=8\n# id 81 domain=en\nBen _ _ B-PER\n"
    text = read(tmp_path, plain, NER)
    assert words(text) == [[("Anna", "B-PER"), ("lives", "O")], [("Ben", "B-PER")]]
    assert text.left_out == "4 comments"
    assert text.written([["X", "Y"], ["Z"]]).decode() == plain.replace("B-PER", "X", 1).replace("_ O", "_ Y").replace(
        "B-PER", "Z"
    )
    tabs = read(tmp_path, "# New York id 3\nNew York\tB-LOC\n", TAGS)
    assert words(tabs) == [[("New York", "B-LOC")]]


def test_a_hash_is_a_word_where_its_line_is_like_the_others(tmp_path: Path):
    pound = "# # B-NP\n20 CD I-NP\n\nthe DT B-NP\n# # I-NP\n20 CD I-NP\n"
    assert words(read(tmp_path, pound, Columns(0, 2))) == [
        [("#", "B-NP"), ("20", "I-NP")], [("the", "B-NP"), ("#", "I-NP"), ("20", "I-NP")]
    ]  # fmt: skip
    assert words(read(tmp_path, pound, TAGS))[0] == [("#", "#"), ("20", "CD")]
    tweets = "#now HT\n#here HT\n\nat IN\n#home HT\n"
    assert words(read(tmp_path, tweets, TAGS)) == [[("#now", "HT"), ("#here", "HT")], [("at", "IN"), ("#home", "HT")]]
    alone = read(tmp_path, "# B-X\n\na O\n", TAGS, label_form=re.compile("B-.+"))
    assert words(alone) == [[("#", "B-X")], [("a", "O")]]


@pytest.mark.parametrize(
    ("text", "number"),
    [("b _ _ Y\n# id 3 new\n", 2), ("#here W\nb Y\n", 1), ("b Y\n#here is one more thing\n", 2)],
)
def test_what_may_be_a_word_or_a_comment_is_refused(tmp_path: Path, text: str, number: int):
    why = refused(tmp_path, text, Columns(0, len(text.split("b ")[1].split("\n")[0].split())))
    assert why.startswith(f"line {number} may be a word or a comment")


LIKE = Layout(labels=["B-LOC", "O"], separator="spaces", width=4)


@pytest.mark.parametrize(
    ("text", "like", "why"),
    [
        (CONLLU, LIKE, "is CoNLL-U, and train is no CoNLL-U"),
        ("We PRP B-NP\n", Layout(labels=[], separator="CoNLL-U", width=10), "is no CoNLL-U, and train is CoNLL-U"),
        ("Rome\tNNP\tI-NP\n", LIKE, "line 1 has a tab, and the run was trained on columns separated by spaces"),
        ("Rome NNP\n", LIKE, "line 1 has 2 of the 3 columns that are needed"),
        ("Rome NNP I-NP O x\n", LIKE, "line 1 has 5 columns, and the run was trained on 4"),
        ("I was in Rome\n\nRome is so old\n", LIKE, "line 1 has 'Rome' as a label, which the run does not have"),
        (
            "Rome NNP I-NP\n",
            Layout(labels=[], separator="tabs", width=4),
            "line 1 has 1 of the 3 columns that are needed",
        ),
    ],
)
def test_a_text_to_be_labelled_has_the_form_of_train(tmp_path: Path, text: str, like: Layout, why: str):
    assert refused(tmp_path, text, NER, train=like, labelled=False).startswith(why)


def test_sentences_are_no_words(tmp_path: Path):
    tabs, text = Layout(labels=["N"], separator="tabs", width=2), "the cat sat\nNew York\nRome\n"
    assert refused(tmp_path, text, TAGS, train=tabs, labelled=False).startswith("line 1 has several words in its only")
    assert len(read(tmp_path, text + "Paris\n", TAGS, train=tabs, labelled=False).sentences[0].words) == 4


def test_labels_may_be_missing_or_have_a_sign_in_their_place(tmp_path: Path):
    for plain in ("Rome NNP I-NP\n", "Rome NNP I-NP\r\n", "Rome NNP I-NP _\n", "Rome NNP I-NP B-LOC"):
        text = read(tmp_path, plain, NER, train=LIKE, labelled=False)
        assert text.sentences[0].words == ["Rome"]
        given = "Rome NNP I-NP O" + plain[len(plain.rstrip()) :]
        assert text.written([["O"]]).decode() == given
    pound = read(tmp_path, "# # I-NP\n20 CD I-NP\n# # I-NP\n", NER, train=LIKE, labelled=False)
    assert pound.sentences[0].words == ["#", "20", "#"]
    comment = "# one remark\n20 CD I-NP\n"
    assert read(tmp_path, comment, NER, train=LIKE, labelled=False).written([["O"]]).decode() == comment[:-1] + " O\n"
    between = refused(tmp_path, "20 CD I-NP\n# one remark\n", NER, train=LIKE, labelled=False)
    assert between.startswith("line 2 may be a word or a comment")
    tabs = Layout(labels=["B-LOC"], separator="tabs", width=2)
    text = read(tmp_path, "New York\n# a remark\n#\n", TAGS, train=tabs, labelled=False)
    assert text.sentences[0].words == ["New York", "#"]
    assert text.written([["B-LOC", "O"]]) == b"New York\tB-LOC\n# a remark\n#\tO\n"


def test_of_train_and_test_one_alone_in_conllu_is_refused(tmp_path: Path):
    like = Layout(labels=["PRON"], separator="CoNLL-U", width=10)
    assert refused(tmp_path, "a b c D\n", UNIVERSAL, train=like).startswith("is no CoNLL-U, and train is CoNLL-U")
