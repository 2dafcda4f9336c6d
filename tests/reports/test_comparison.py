"""Tables of runs: which are compared, in which order, and what is reported of them."""

import csv
import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from lmzoo.core.checksums import with_checksum
from lmzoo.reports.comparison import MOST_OPTIONS, as_csv, as_text, collect, groups
from lmzoo.reports.plot import picture

CONFIG = {
    "seed": 0, "device": "cpu", "run_dir": "x", "optimizer": {"name": "adamw", "lr": 0.003},
    "model": {"name": "toy", "hidden": 8, "other": 1}, "corpus": {"name": "toy", "context": "stream"},
}  # fmt: skip


def keep(
    folder: Path,
    valid: float | None,
    words: str = "a b",
    text: str = "t",
    context: str = "stream",
    tokens: int = 1,
    **changes: Any,
) -> Path:
    """A finished run, as far as a table needs it."""
    folder.mkdir()
    config: Any = OmegaConf.create(CONFIG)
    for key, value in changes.items():
        OmegaConf.update(config, key.replace("__", "."), value, force_add=True)
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(config))
    (folder / "vocabulary.txt").write_text("<eos>\n" + words.replace(" ", "\n") + "\n")
    splits = {"train": "train", "valid": text, "test": text}
    known = {"corpus": {"name": "toy", "sha256": splits}, "made_from": {}}
    (folder / "provenance.json").write_text(json.dumps([with_checksum(known)]))
    results = {
        "model": config.model.name, "corpus": "toy", "context": context, "parameters": 1234, "seed": config.seed,
        "perplexity": {"valid": valid, "test": 7.5}, "tokens": {"valid": tokens, "test": 1}, "device": "cpu",
        "seconds": 9.6, "tokens_per_second": 4567.8, "train_perplexity": 5.0, "best_epoch": 1.5,
    }  # fmt: skip
    (folder / "results.json").write_text(json.dumps(with_checksum(results)))
    return folder


def tables(*folders: Path, seeds: bool = False):
    entries, others = collect(folders)
    assert not others
    return groups(entries, seeds)


def test_runs_are_ranked_by_valid_and_show_what_differs(tmp_path: Path):
    runs = [
        keep(tmp_path / "middle", 20.0, optimizer__lr=0.01),
        keep(tmp_path / "never", None),
        keep(tmp_path / "best", 10.0, model__name="tiny", device="cuda", run_dir="y"),
    ]
    lines = as_text(tables(*runs)).splitlines()
    assert lines[0] == "toy, context stream, 3 words"
    figures = "parameters  best epoch  seconds  tokens/s  device  run"
    assert lines[1] == f"model     lr  train  valid  test  {figures}"
    end = f"     1,234         1.5       10     4,568     cpu  {tmp_path}"
    assert lines[6].startswith("train: of the words between the last two checks, as they were learnt from")
    assert lines[2:5] == [
        f" tiny  0.003   5.00  10.00  7.50  {end}/best",
        f"  toy   0.01   5.00  20.00  7.50  {end}/middle",
        f"  toy  0.003   5.00    inf  7.50  {end}/never",
    ]


def test_a_table_always_names_the_model(tmp_path: Path):
    alone = keep(tmp_path / "a", 8.0)
    header, line = as_text(tables(alone)).splitlines()[1:3]
    assert (header.split()[0], line.split()[0]) == ("model", "toy")
    alike = as_text(tables(alone, keep(tmp_path / "b", 9.0, optimizer__lr=0.01))).splitlines()
    assert [line.split()[0] for line in alike[1:4]] == ["model", "toy", "toy"]


def test_runs_alike_but_for_the_seed_are_a_row(tmp_path: Path):
    seeds = [keep(tmp_path / f"{seed}", 10.0 + seed**2, seed=seed) for seed in range(3)]
    again = keep(tmp_path / "again", 90.0, seed=1)
    other = keep(tmp_path / "other", 11.0, seed=1, model__hidden=9)
    (group,) = tables(*seeds, again, other)
    assert [len(row.entries) for row in group.rows] == [1, 3, 1]
    row = group.rows[1]
    assert row.figures["valid"] == statistics.mean([10, 11, 14])
    assert row.spread == {"train": 0, "valid": statistics.stdev([10, 11, 14]), "test": 0}
    assert "11.67 ± 2.08  7.50 ± 0.00" in as_text([group])
    assert as_text([group]).splitlines()[3].endswith(f"{tmp_path}/0 and 2 more")
    assert "seed " not in as_text([group])
    (group,) = tables(*seeds, again, other, seeds=True)
    assert [row.figures["valid"] for row in group.rows] == [10, 11, 11, 14, 90]
    assert list(group.options.values()) == ["model", "seed", "hidden"]


def test_runs_on_characters_have_bits(tmp_path: Path):
    runs = [keep(tmp_path / f"{seed}", 9.0, seed=seed, corpus__unit="char") for seed in (0, 1)]
    header, line = as_text(tables(*runs)).splitlines()[1:3]
    assert "valid         test  valid bits/character  test bits/character  parameters" in header
    assert "7.50 ± 0.00                3.1699               2.9069  " in line  # log2 9, log2 7.5
    (row,) = csv.DictReader(as_csv(tables(*runs)).decode().splitlines())
    assert [float(row[f"{split}_bits"]) for split in ("valid", "test")] == pytest.approx([3.169925, 2.9068906])


def test_bits_of_characters_need_no_test_and_no_option(tmp_path: Path):
    """A vocabulary may come from another run, and with it the unit; the figures say that they are of characters."""
    run = keep(tmp_path / "a", 8.0)
    results = json.loads((run / "results.json").read_text()) | {"bits_per_character": {"valid": 3.0}}
    del results["perplexity"]["test"], results["tokens"]["test"]
    (run / "results.json").write_text(json.dumps(with_checksum(results)))
    header, line = as_text(tables(run)).splitlines()[1:3]
    assert "valid bits/character" in header
    assert "test bits" not in header
    assert "3.0000" in line


def test_perplexity_per_word_stands_beside_that_of_pieces(tmp_path: Path):
    run = keep(tmp_path / "a", 8.0)
    results = json.loads((run / "results.json").read_text()) | {"perplexity_per_word": {"valid": 64.25, "test": None}}
    (run / "results.json").write_text(json.dumps(with_checksum(results)))
    header, line = as_text(tables(run)).splitlines()[1:3]
    assert header.split()[4:10] == ["valid", "per", "word", "test", "per", "word"]
    assert line.split()[4:6] == ["64.25", "inf"]
    assert as_text(tables(run)).endswith(
        "per word: of subwords, perplexity under one segmentation of each word; under all together it is lower"
    )
    assert "per word" not in as_text(tables(keep(tmp_path / "b", 8.0)))
    (run / "results.json").write_text(json.dumps(with_checksum(results | {"bits_per_character": {"valid": 3.0}})))
    assert "segmentation" not in as_text(tables(run))


def test_a_model_that_lacks_words_of_the_text_has_its_own_table(tmp_path: Path):
    """`<unk>` in their place lowers its perplexity."""
    lacking, other = keep(tmp_path / "a", 8.0), keep(tmp_path / "b", 9.0)
    results = json.loads((lacking / "results.json").read_text()) | {"unlisted_tokens": {"valid": 1200, "test": 34}}
    (lacking / "results.json").write_text(json.dumps(with_checksum(results)))
    assert [group.title for group in tables(lacking, other)] == [
        "toy, context stream, 3 words",
        "toy, context stream, 3 words, 1,234 tokens of words that the model lacks",
    ]


def test_a_number_of_parameters_that_is_not_known_is_empty(tmp_path: Path):
    run = keep(tmp_path / "a", 8.0)
    results = json.loads((run / "results.json").read_text())
    (run / "results.json").write_text(json.dumps(with_checksum(results | {"parameters": None})))
    (row,) = csv.DictReader(as_csv(tables(run)).decode().splitlines())
    assert row["parameters"] == ""
    assert picture(tables(run), Path("a.svg"))


@pytest.mark.parametrize("other", ["text", "parent", "precision"])
def test_runs_of_other_texts_parents_or_precisions_are_no_repetitions(tmp_path: Path, other: str):
    """Their options are alike, as a file may have been written anew under its name."""
    runs = [keep(tmp_path / f"{seed}", 10.0 + seed, seed=seed) for seed in range(4)]
    for run in runs[2:]:
        file = run / ("results.json" if other == "precision" else "provenance.json")
        read = json.loads(file.read_text())
        if other == "text":
            read[0]["corpus"]["sha256"]["train"] = "another"
        elif other == "parent":
            read[0]["made_from"] = {"trainer.from": {"parent": "abc"}}
        else:
            read["precision"] = "bfloat16"
        file.write_text(json.dumps([with_checksum(read[0])] if isinstance(read, list) else with_checksum(read)))
    (group,) = tables(*runs)
    assert [len(row.entries) for row in group.rows] == [2, 2]
    assert [row.spread["valid"] for row in group.rows] == [pytest.approx(0.5**0.5)] * 2


def test_a_seed_without_an_end_spoils_the_mean(tmp_path: Path):
    (group,) = tables(keep(tmp_path / "0", 10.0), keep(tmp_path / "1", None, seed=1))
    assert group.rows[0].figures["valid"] == float("inf")
    assert group.rows[0].spread.keys() == {"train", "test"}


@pytest.mark.parametrize("unlike", [{"words": "a c"}, {"text": "u"}, {"context": "sentence"}, {"tokens": 2}])
def test_runs_of_different_texts_are_not_ranked_together(unlike, tmp_path: Path):
    found = tables(keep(tmp_path / "one", 10.0), keep(tmp_path / "other", 9.0, **unlike))
    assert len(found) == 2
    assert len({group.title for group in found}) == 2


def test_texts_to_learn_from_may_differ(tmp_path: Path):
    (group,) = tables(*(keep(tmp_path / f"{size}", 10.0, corpus__train=size) for size in (100, 200)))
    assert list(group.options.values()) == ["model", "corpus.train"]  # beside the figure of train


def test_files_have_every_option_that_differs(tmp_path: Path):
    more = {f"model__option{i}": "a|b" for i in range(MOST_OPTIONS + 2)}
    found = tables(
        keep(tmp_path / "one", 10.0, **more), keep(tmp_path / "two", 9.0, **dict.fromkeys(more, True)),
        keep(tmp_path / "three", 9.0, context="sentence", seed=3),
    )  # fmt: skip
    text = as_text(found)
    assert "3 more options differ" in text
    assert "a|b" in text
    rows = list(csv.DictReader(as_csv(found).decode().splitlines()))
    assert [row["run"] for row in rows] == [str(tmp_path / name) for name in ("three", "two", "one")]
    assert [row["model.option9"] for row in rows] == ["", "true", "a|b"]
    assert [row["optimizer.lr"] for row in rows] == ["0.003"] * 3, "options that do not differ, too"
    assert (rows[0]["context"], rows[0]["valid"], rows[0]["valid_sd"]) == ("sentence", "9.0", "")


def test_a_line_of_several_seeds_names_them_all(tmp_path: Path):
    found = tables(*(keep(tmp_path / f"{seed}", 10.0, seed=seed) for seed in (3, 5)))
    (row,) = csv.DictReader(as_csv(found).decode().splitlines())
    assert (row["seed"], row["seeds"]) == ("3 5", "2")


def test_runs_that_cannot_be_compared_are_named(tmp_path: Path):
    good, unfinished, damaged = (keep(tmp_path / name, 9.0) for name in ("good", "unfinished", "damaged"))
    (unfinished / "results.json").unlink()
    (damaged / "provenance.json").write_text("[]")
    entries, others = collect([good, unfinished, damaged, tmp_path])
    assert [entry.folder for entry in entries] == [good]
    assert others[unfinished] == "unfinished"
    assert "provenance.json: changed since the run wrote it" in others[damaged]
    assert others[tmp_path].startswith("not a run directory")  # the folder is beside it
