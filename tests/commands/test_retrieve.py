import os
import re
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from command_line import command

from lmzoo.commands.retrieve import main
from lmzoo.retrieval.analysis import STOP_WORDS, analysis, stemmer
from lmzoo.retrieval.formats import read_judgements, read_records

FILES = {
    "docs": "d1\tthe wings of a plane\nd2\tflow over a wing , flow\nd3\tof the\nd4\theat\nd5\tflowing heat and heat\n",
    "queries": "q1\tthe wing flows\nq2\theat\nq3\tnever\n",
    "qrels": "q1 0 d1 1\nq2 0 d4 1\n",
}


@pytest.fixture
def files(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def documents(run: str, query: str) -> list[str]:
    return [line.split()[2] for line in run.splitlines() if line.startswith(f"{query} ")]


@pytest.mark.usefixtures("files")
def test_a_run_is_printed():
    done = command("docs", "queries", main=main)
    assert re.fullmatch(r"(q\d Q0 d\d \d -\d+\.\d{1,8} lmzoo\n)+", done.out)
    assert [documents(done.out, query) for query in ("q1", "q2", "q3")] == [["d2", "d1", "d5"], ["d5", "d4"], []]
    assert done.err == "5 documents of 9 words, 4 different; 3 queries, 1 of them without a known word\n"


@pytest.mark.parametrize(
    ("options", "query", "ranking"),
    [
        (["--mu", "1"], "q2", ["d4", "d5"]),
        (["--mu", "0", "--lambda", "0.5"], "q2", ["d4", "d5"]),
        (["--mu", "1", "--prior", "length"], "q2", ["d5", "d4"]),
        (["--stem", "none"], "q1", ["d2"]),
        (["--stem", "none", "--stop", "none"], "q1", ["d2", "d3", "d1"]),
        (["--depth", "1"], "q1", ["d2"]),
        (["--feedback", "1"], "q2", ["d5", "d4", "d2"]),
        (["--bm25", "9", "0"], "q2", ["d5", "d4"]),
        (["--bm25", "0", "0"], "q2", ["d4", "d5"]),
        (["--bm25", "9", "1"], "q2", ["d4", "d5"]),
    ],
)
@pytest.mark.usefixtures("files")
def test_options_have_an_effect(options: list[str], query: str, ranking: list[str]):
    done = command("docs", "queries", *options, main=main)
    assert documents(done.out, query)[: len(ranking)] == ranking, done
    assert "--feedback" in options or len(documents(done.out, query)) == len(ranking)


def test_judged_runs_have_figures(files: Path):
    done = command("docs", "queries", "--qrels", "qrels", "--run", "run", main=main)
    assert done.out == "MAP 0.5000  nDCG@10 0.6309  P@10 0.1000  (2 queries)\n"
    assert (files / "run").read_text() == command("docs", "queries", main=main).out


def test_what_the_figures_leave_out_is_reported(files: Path):
    asked = ["docs", "queries", "--qrels", "qrels"]
    assert "not counted" in command(*asked, main=main).err  # q3 is not judged
    (files / "queries").write_text("q1\tthe wing flows\nq2\theat\n")
    counted = "5 documents of 9 words, 4 different; 2 queries, 0 of them without a known word\n"
    assert command(*asked, main=main).err == counted
    (files / "qrels").write_text(FILES["qrels"] + "q1 0 e7 2\nq1 0 e8 0\nq9 0 d1 1\nq8 0 d1 0\n")
    told = (
        "warning: judged queries that the file of queries lacks: 2, the first q9; "
        "relevant documents that the collection lacks: 1, the first e7\n"
    )
    assert command(*asked, main=main).err == counted + told
    (files / "qrels").write_text("q2 0 d4 1\nq1 0 d1 0\n")
    told = "warning: queries without relevant documents, not counted: 1, the first q1\n"
    assert command(*asked, main=main).err == counted + told


def test_smart_documents_are_judged_by_their_numbers(files: Path):
    (files / "docs").write_text(".I 1\n.W\nheat\n.I 3\n.W\nwing\n.I 7\n.W\nflow\n")
    (files / "queries").write_text(".I 3\n.W\nwing\n.I 7\n.W\nflow\n")
    assert command("docs", "queries", main=main).out.split("\n")[0].startswith("3 Q0 3 1 ")
    for relevant, expected in (("3", "1.0000"), ("2", "0.0000"), ("1", "0.0000")):
        (files / "qrels").write_text(f"3 0 {relevant} 1\n")
        assert command("docs", "queries", "--qrels", "qrels", main=main).out.startswith(f"MAP {expected} ")


def test_padded_numbers_are_judged_as_written(files: Path):
    (files / "docs").write_text(".I 01\n.W\nheat\n.I 02\n.W\nwing\n")
    (files / "queries").write_text(".I 01\n.W\nwing\n")
    (files / "qrels").write_text("01 0 02 1\n")
    assert command("docs", "queries", "--qrels", "qrels", main=main).out.startswith("MAP 1.0000 ")


def test_graded_judgements_have_the_figures_of_trec_eval(files: Path):
    grades = {"q1": {"d1": 3, "d2": 1, "d5": 2}, "q2": {"d4": 2, "d5": 1}}
    rows = [f"{query}\t{document}\t{grade}\n" for query, row in grades.items() for document, grade in row.items()]
    (files / "qrels").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    done = command("docs", "queries", "--qrels", "qrels", "--run", "run", main=main)
    with (files / "run").open() as stream:
        run = pytrec_eval.parse_run(stream)
    names = ("map", "ndcg_cut_10", "P_10")
    each = pytrec_eval.RelevanceEvaluator(grades, set(names)).evaluate(run)
    expected = [np.mean([each[query][name] for query in grades]) for name in names]
    assert done.out.split()[1::2][:3] == [f"{figure:.4f}" for figure in expected]
    gains = np.array([1, 3, 2]) @ (1 / np.log2([2, 3, 4])), np.array([1, 2]) @ (1 / np.log2([2, 3]))
    best = np.array([3, 2, 1]) @ (1 / np.log2([2, 3, 4])), np.array([2, 1]) @ (1 / np.log2([2, 3]))
    assert expected[1] == pytest.approx((gains[0] / best[0] + gains[1] / best[1]) / 2)  # d2 d1 d5; d5 d4


def test_settings_are_chosen_by_cross_validation(files: Path):
    done = command("docs", "queries", "--qrels", "qrels", "--mu", "200", "1", "--folds", "2", "--run", "run", main=main)
    assert done.out.splitlines() == [
        "MAP 0.5000  nDCG@10 0.6309  P@10 0.1000  (2 queries)  --mu 200",
        "MAP 0.7500  nDCG@10 0.8155  P@10 0.1000  (2 queries)  --mu 1",
        "fold 1, chosen on the others: --mu 1",
        "fold 2, chosen on the others: --mu 200",
        "MAP 0.5000  nDCG@10 0.6309  P@10 0.1000  (2 queries)  cross-validated",
    ]
    each = [command("docs", "queries", "--mu", mu, main=main).out for mu in ("1", "200")]
    for query, expected in (("q1", each[0]), ("q2", each[1])):
        lines = (files / "run").read_text().splitlines()
        assert [line for line in lines if line.startswith(query)] == [
            line for line in expected.splitlines() if line.startswith(query)
        ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["docs", "absent"], "absent: no such file"),
        (["docs", "queries", "--bm25", "1", "2"], "--bm25 b=2.0: must be at most 1"),
        (["absent", "queries", "--bm25", "-1", "0.5"], "--bm25 k1=-1.0: must be at least 0"),
        (["docs", "queries", "--bm25", "nan", "0.5"], "--bm25 k1=nan: must be a number"),
        (
            ["docs", "queries", "--bm25", "1", "1", "--mu", "3"],
            "--bm25: does not use a language model; leave out --prior, --mu",
        ),
        (["docs", "queries", "--nu", "5"], "--nu: no effect with --order 1; set --order, or leave it out"),
        (["docs", "queries", "--terms", "9", "--feedback", "0"], "--terms: no effect with --feedback 0"),
        (["docs", "queries", "--folds", "7"], "--folds: no effect where each option has one value"),
        (["docs", "queries", "--mu", "1", "2"], "several values of an option need --qrels"),
        (["docs", "queries", "--mu", "0"], "gives unseen words no probability"),
        (["docs", "queries", "--mu", "x"], "--mu: invalid float value: 'x'"),
        (["docs", "queries", "--depth", "0"], "--depth 0: must be at least 1"),
        (["docs", "queries", "--mu", "1", "2", "--qrels", "qrels"], "--folds: there are 2 judged queries"),
        (["docs", "queries", "--qrels", "docs"], "docs, line 1: neither 'QUERY 0"),
        (["docs", "docs", "--qrels", "qrels"], "no query has a relevant document"),
        (["docs", "queries", "--stem", "portr"], "--stem portr: no such stemmer; did you mean 'porter'"),
        (["docs", "queries", "--run", "docs"], "docs: is the text to be read"),
        (["docs", "queries", "--run", "no/run"], "cannot be written"),
        (["stop", "queries"], "stop: contains only stop words; set --stop none"),
        (["blank", "queries"], "blank: no document has a word"),
        (["blank", "queries", "--stop", "none"], "blank: no document has a word"),
    ],
)
def test_mistakes_are_reported_in_one_line(files: Path, options: list[str], message: str):
    (files / "stop").write_text("1\tof the\n")
    (files / "blank").write_text("1\t\n2\t \n")
    done = command(*options, main=main)
    assert message in done.refused()
    assert {path.name: path.read_text() for path in files.iterdir()} == FILES | {
        "stop": "1\tof the\n",
        "blank": "1\t\n2\t \n",
    }


@pytest.fixture
def cranfield() -> Path:
    folder = Path(os.environ.get("LMZOO_DATA", "")) / "cranfield"
    if not (folder / "cran.all.1400").exists():
        pytest.skip("LMZOO_DATA has no Cranfield")
    return folder


def test_combining_marks_are_parts_of_words():
    assert analysis((), str)("Café cafe\u0301, हिन्दी") == ["café", "café", "हिन्दी"]


@pytest.mark.parametrize(
    ("options", "mu", "lam", "least"),
    [(["--mu", "200"], 200, 0, 0.300), (["--mu", "0", "--lambda", "0.6"], 0, 0.6, 0.297)],
)
def test_cranfield_has_the_average_precision_of_the_dense_formula(
    cranfield: Path, options: list[str], mu: float, lam: float, least: float
):
    files = [str(cranfield / name) for name in ("cran.all.1400", "cran.qry", "cranqrel")]
    printed = command(*files[:2], "--qrels", files[2], *options, main=main).out
    words = analysis(STOP_WORDS.read_text().split(), stemmer("porter"))
    documents, queries = ([words(t) for t in read_records(Path(file)).values()] for file in files[:2])
    number = {word: i for i, word in enumerate(sorted({word for text in documents for word in text}))}

    def counted(texts: list[list[str]]) -> np.ndarray:
        C = np.zeros((len(texts), len(number)))
        for row, text in zip(C, texts, strict=True):
            np.add.at(row, [number[word] for word in text if word in number], 1)
        return C

    C = counted(documents)
    background, length = C.sum(0) / C.sum(), np.maximum(C.sum(1, keepdims=True), 1)
    p = (1 - lam) * C / length + lam * background if lam else (C + mu * background) / (C.sum(1, keepdims=True) + mu)
    scores = counted(queries) @ np.log(p).T  # (Q, N)
    precisions, judgements = [], read_judgements(Path(files[2]))
    for query, row in enumerate(scores, 1):
        relevant = {int(name) - 1 for name in judgements[str(query)]}
        hits = np.isin(np.argsort(-row, kind="stable")[:1000], list(relevant))
        precisions.append((hits.cumsum() / np.arange(1, 1001))[hits].sum() / len(relevant))
    found = float(printed.split()[1])
    assert found == pytest.approx(np.mean(precisions), abs=0.0005)
    assert found >= least
