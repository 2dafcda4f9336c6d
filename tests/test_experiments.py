"""Every preset names options that exist, and values that they take."""

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import lmzoo.train  # noqa: F401 - its resolver
from lmzoo.core.configs import CONFIGS
from lmzoo.core.options import call
from lmzoo.corpus.vocabulary import Vocabulary
from lmzoo.runs.loading import build_model
from lmzoo.training.optimization import optimizers, schedules
from lmzoo.training.options import TrainerOptions

NAMES = sorted(path.stem for path in (CONFIGS / "experiment").glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_can_be_built(name: str):
    with initialize_config_dir(str(CONFIGS), version_base=None):
        composed = compose("train", [f"experiment={name}"])
    config = {part: OmegaConf.to_container(composed[part]) for part in ("model", "optimizer", "schedule", "trainer")}
    model = build_model(config, Vocabulary(["<eos>", *(f"w{i}" for i in range(999))]))
    options = call(TrainerOptions, config["trainer"], "trainer.")
    assert model.autocast or options.precision == "float32"
    parameters = list(model.parameters()) or [torch.nn.Parameter(torch.zeros(1))]
    optimizer = optimizers.build(config["optimizer"], parameters=parameters)
    schedules.build(config["schedule"], optimizer=optimizer, steps_per_epoch=10, steps=100)
