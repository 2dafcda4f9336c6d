"""TensorBoard: tags, steps, and what becomes of points whose work is done again."""

import io
import json
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from command_line import MODELS, SMALL, TEXT, command, configuration, train
from PIL import Image
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext

from lmzoo.commands import label, vectors
from lmzoo.commands import train as train_command
from lmzoo.corpus import load_corpus
from lmzoo.reports.board import LINE, Board
from lmzoo.training.trainer import Trainer

with warnings.catch_warnings(action="ignore"):  # tensorboard's own
    from tensorboard.plugins.custom_scalar.custom_scalars_plugin import CustomScalarsPlugin
    from tensorboard.plugins.hparams import api_pb2, get_experiment, list_session_groups
    from tensorboard.plugins.hparams.backend_context import Context as HParamsContext
    from tensorboard.plugins.scalar.scalars_plugin import ScalarsPlugin


def events(folder: Path) -> EventAccumulator:
    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def steps(folder: Path, tag: str) -> list[int]:
    return [point.step for point in events(folder).Scalars(tag)]


def test_nothing_is_written_before_the_first_point(tmp_path: Path):
    board = Board(tmp_path / "run")
    board.close()
    assert not (tmp_path / "run").exists()


def test_points_that_come_again_are_purged(tmp_path: Path):
    first = Board(tmp_path)
    for step in (10, 20, 30, 40):
        first.scalars({"loss": 1.0}, step)
    first.close()
    time.sleep(1)  # TensorBoard orders files by their names, which begin with the second
    second = Board(tmp_path)
    for step in (30, 40, 50):
        second.scalars({"loss": 2.0}, step)
    second.close()
    points = [(point.step, point.value) for point in events(tmp_path).Scalars("loss")]
    assert points == [(10, 1.0), (20, 1.0), (30, 2.0), (40, 2.0), (50, 2.0)]


def test_the_figures_of_a_finished_run_purge_no_point(tmp_path: Path):
    first = Board(tmp_path)
    first.scalars({"perplexity/valid": 9.0}, 30)
    first.close()
    time.sleep(1)  # as above: the tenth file of a process and second sorts before the ninth
    second = Board(tmp_path)
    second.hyperparameters({"seed": 0}, {"result/valid": 9.0}, 30)
    second.close()
    assert steps(tmp_path, "perplexity/valid") == steps(tmp_path, "result/valid") == [30]
    assert any("hparams" in str(tag) for tag in events(tmp_path).summary_metadata)


def served(folder: Path) -> tuple[MultiplexerDataProvider, RequestContext]:
    """The runs below a folder, as TensorBoard's plugins get them."""
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    return MultiplexerDataProvider(multiplexer, str(folder)), RequestContext()


def hparams(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The experiment that the tab HPARAMS shows, and the row of each run."""
    provider, context = served(folder)
    backend = HParamsContext(TBContext(data_provider=provider))
    experiment = get_experiment.Handler(context, backend, "", api_pb2.GetExperimentRequest()).run()
    asked = api_pb2.ListSessionGroupsRequest(allowed_statuses=[api_pb2.STATUS_SUCCESS], slice_size=99)
    groups = list_session_groups.Handler(context, backend, "", asked).run().session_groups
    return experiment, {group.name: group for group in groups}


def test_options_that_differ_are_the_first_columns_and_all_runs_have_rows(tmp_path: Path):
    for lr in (0.01, 0.1):
        board = Board(tmp_path / f"lr={lr}")
        board.scalars({"perplexity/valid": 9.0}, 10)
        board.hyperparameters(
            {"model": "lstm", "batch_size": 4, "lr": lr, "tied": lr > 0.05, "prune": [0, 1]}, {"result/valid": lr}, 10
        )
        board.close()
    experiment, found = hparams(tmp_path)
    assert [info.name for info in experiment.hparam_infos] == ["lr", "tied", "batch_size", "model", "prune"]
    assert [info.name.tag for info in experiment.metric_infos] == ["perplexity/valid", "result/valid"]
    rows = {group.hparams["lr"].number_value: group for group in found.values()}
    assert {lr: row.hparams["tied"].string_value for lr, row in rows.items()} == {0.01: "false", 0.1: "true"}
    assert {row.hparams["prune"].string_value for row in rows.values()} == {"[0, 1]"}
    for lr, row in rows.items():
        assert {metric.name.tag: metric.value for metric in row.metric_values}["result/valid"] == pytest.approx(lr)


def test_kinds_of_run_are_apart_and_perplexity_is_the_first_figure(folder: Path):
    Path("train.txt").write_text("the D\nends V\n\nthey P\nwalk V\n\n")
    taught = ["task=pos", "task.train=train.txt", "task.test=train.txt", "labeller=perceptron", "run_dir=board/tags"]
    vector = [*TEXT, "method=skipgram", "method.dim=4", "method.min_count=1", "method.epochs=1", "run_dir=board/words"]
    for options, main in (
        ([*SMALL, "run_dir=board/lstm"], train_command.main),
        ([*TEXT, *MODELS["ngram"], "run_dir=board/ngram"], train_command.main),
        (taught, label.main),
        (vector, vectors.main),
    ):
        done = command(*options, main=main)
        assert done.code == 0, done
    experiment, rows = hparams(Path("board"))
    assert [info.name for info in experiment.hparam_infos[:2]] == ["Kind", "Name"]
    tags = [info.name.tag for info in experiment.metric_infos]
    assert tags[:4] == ["perplexity/best_valid", "perplexity/test", "perplexity/train", "perplexity/valid"]
    kinds = {name: (row.hparams["Kind"].string_value, row.hparams["Name"].string_value) for name, row in rows.items()}
    assert sorted(kinds.values()) == [
        ("labels", "perceptron"), ("language model", "lstm"), ("language model", "ngram"), ("word vectors", "skipgram"),
    ]  # fmt: skip
    measured = {kind: {metric.name.tag for metric in rows[name].metric_values} for name, kind in kinds.items()}
    assert "result/accuracy/test" in measured["labels", "perceptron"]
    assert "result/loss" in measured["word vectors", "skipgram"]
    assert "perplexity/best_valid" in measured["language model", "ngram"]
    (lstm,) = (rows[name].hparams for name, kind in kinds.items() if kind[1] == "lstm")
    config = yaml.safe_load(Path("board/lstm/config.yaml").read_text())
    for option, value in config["model"].items():
        if option != "name":
            told = lstm[f"model.{option}"]
            expected = json.dumps(value) if value is None or isinstance(value, bool) else value
            assert (told.string_value or told.number_value) == expected, option  # defaults as well


def test_each_check_is_logged_with_a_text_that_the_model_draws(tmp_path: Path):
    train(configuration(tmp_path / "run", *SMALL))
    lines = (tmp_path / "run" / "train.log").read_text().splitlines()
    written = [line.partition("sample: ")[2] for line in lines if "sample: " in line]
    shown = [
        event.tensor_proto.string_val[0].decode() for event in events(tmp_path / "run").Tensors("sample/text_summary")
    ]
    assert len(written) == len(shown) == 2
    for line, text in zip(written, shown, strict=True):
        assert " | ".join(part.strip() for part in text.splitlines()).startswith(line.removesuffix("…"))
        assert len(line) > 50


def test_one_chart_has_the_perplexity_of_all_runs(tmp_path: Path):
    for name in ("lstm", "gru"):
        board = Board(tmp_path / name)
        for step in (10, 20):
            board.scalars({"perplexity/valid": 9.0, "perplexity/train": 8.0, "perplexity/valid_other": 1.0}, step)
        board.close()
    provider, context = served(tmp_path)
    loaded = {"scalars": ScalarsPlugin(TBContext(data_provider=provider))}
    plugin = CustomScalarsPlugin(TBContext(data_provider=provider, plugin_name_to_instance=loaded))
    (category,) = json.loads(plugin.layout_impl(context, ""))["category"]
    assert [chart["title"] for chart in category["chart"]] == ["valid", "train"]
    for run in ("lstm", "gru"):
        (tag,) = category["chart"][0]["multiline"]["tag"]
        (line,) = plugin.scalars_impl(context, run, tag, "")["tag_to_events"].items()
        assert line[0] == "perplexity/valid"
        assert [point[1] for point in line[1]] == [10, 20]


@pytest.mark.parametrize(("shape", "pixels"), [((2, 4), (256, 512)), ((600, 3), (600, 3))])
def test_images_are_black_at_0_and_white_at_1(shape: tuple[int, int], pixels: tuple[int, int], tmp_path: Path):
    matrix = torch.zeros(shape)
    matrix[0, 1] = 1.0
    board = Board(tmp_path)
    board.image("matrix", matrix, 7)
    board.close()
    (image,) = events(tmp_path).Images("matrix")
    assert (image.step, image.height, image.width) == (7, *pixels)
    picture = Image.open(io.BytesIO(image.encoded_image_string)).convert("L")
    enlarged = pixels[1] // shape[1]
    assert picture.getpixel((enlarged, 0)) == 255
    assert picture.getpixel((enlarged - 1, 0)) == picture.getpixel((0, pixels[0] - 1)) == 0


def test_a_run_has_the_tags_that_all_runs_have(tmp_path: Path):
    results = train(configuration(tmp_path / "run", *SMALL, "trainer.checks_per_epoch=2"))
    found = events(tmp_path / "run")
    assert set(found.Tags()["scalars"]) == {
        "perplexity/valid", "perplexity/train", "train/learning_rate", "train/gradient_norm", "train/tokens_per_second",
        "perplexity/best_valid", "perplexity/test",
    }  # fmt: skip
    assert "sample/text_summary" in found.Tags()["tensors"]
    assert any("hparams" in str(tag) for tag in found.summary_metadata)
    valid = [point.value for point in found.Scalars("perplexity/valid")]
    assert found.Scalars("perplexity/best_valid")[0].value == pytest.approx(min(valid), rel=1e-5)
    assert min(valid) == pytest.approx(results["perplexity"]["valid"], rel=1e-5)
    assert found.Scalars("perplexity/test")[0].value == pytest.approx(results["perplexity"]["test"], rel=1e-5)


def test_a_text_is_shown_line_by_line_as_it_is(tmp_path: Path):
    board = Board(tmp_path)
    board.text("sample", "a b\nc", 7)
    board.close()
    (point,) = events(tmp_path).Tensors("sample/text_summary")
    assert (point.step, point.tensor_proto.string_val) == (7, [b"    a b\n    c"])


def test_a_long_line_of_a_text_is_broken_between_words(tmp_path: Path):
    board, words = Board(tmp_path), [f"word{n}" for n in range(99)]
    board.text("sample", " ".join(words) + "\nend", 7)
    board.close()
    (point,) = events(tmp_path).Tensors("sample/text_summary")
    *broken, end = point.tensor_proto.string_val[0].decode().split("\n")
    assert " ".join(broken).split() == words
    assert end == "    end"
    assert max(map(len, broken)) <= 4 + LINE
    assert all(line.startswith("    word") for line in broken)


class Killed(BaseException):
    """Nothing that runs after it may matter."""


def test_steps_are_tokens_seen_and_a_killed_run_leaves_no_point_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lmzoo.training.language_models.STEPS_PER_POINT", 1)
    config, folder = configuration(tmp_path / "run", *SMALL), tmp_path / "run"
    length = len(load_corpus(config["corpus"]).splits["train"]) // 4  # tokens of each of the four rows
    ends = [4 * min(20 * (window + 1), length) for window in range(-(-length // 20))]
    expected = ends + [4 * length + end for end in ends]
    take = Trainer._step

    def step(self: Trainer, *arguments: Any) -> dict[str, float]:
        if self.progress.step == len(ends) + 2:  # the last checkpoint is that of the first epoch's end
            raise Killed
        return take(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", step)
        with pytest.raises(Killed):
            train(config)
    assert steps(folder, "perplexity/train") == expected[: len(ends) + 2]
    train(config)
    assert steps(folder, "perplexity/train") == expected
    assert steps(folder, "perplexity/valid") == [4 * length, 8 * length]
    assert steps(folder, "perplexity/best_valid") == [8 * length]
