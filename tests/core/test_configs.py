"""Defaults of entries, and presets of options that exist."""

import pytest
import torch
from command_line import configuration

from lmzoo.core.configs import CONFIGS
from lmzoo.core.options import call
from lmzoo.corpus.vocabulary import Vocabulary
from lmzoo.runs.loading import build_model
from lmzoo.runs.trainer_options import TrainerOptions
from lmzoo.training.optimization import optimizers, schedules

PRESETS = sorted(path.stem for path in (CONFIGS / "experiment").glob("*.yaml"))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_can_be_built(name: str, tmp_path):
    config = configuration(tmp_path, f"experiment={name}")
    model = build_model(config["model"], Vocabulary(["<eos>", *(f"w{i}" for i in range(999))]))
    assert call(TrainerOptions, config["trainer"], "trainer.").precision == "auto"
    parameters = list(model.parameters()) or [torch.nn.Parameter(torch.zeros(1))]
    optimizer = optimizers.build(config["optimizer"], parameters=parameters)
    schedules.build(config["schedule"], optimizer=optimizer, steps_per_epoch=10, steps=100)
