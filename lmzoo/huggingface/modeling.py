"""A language model of the zoo as a causal model of transformers; the code of an exported folder imports this module."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import lmzoo.models  # noqa: F401 - its import registers them
from lmzoo.core.plugins import require_plugins
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.huggingface.extra import imported
from lmzoo.huggingface.folder import WEIGHTS
from lmzoo.protocol.model import LanguageModel, State, evaluating, models, where_rows

transformers = imported("transformers")


_PLACE = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")
"""The options of transformers for where a file is found."""


class LmzooConfig(transformers.PretrainedConfig):
    """The configuration of a `LmzooForCausalLM`.

    Args:
        vocab_size: V, with `<eos>`, the beginning and the end of a sentence, as word 0.
        lmzoo: ``model``: the options of the model; ``context``: as in `lmzoo.corpus.Context`; ``plugins``: the modules
            that it needs; ``extra_state``: the entries of the state dict that are no tensors.
    """

    model_type = "lmzoo"

    def __init__(self, vocab_size: int = 1, lmzoo: dict[str, Any] | None = None, **others: Any):
        self.vocab_size, self.lmzoo = vocab_size, lmzoo or {}
        self.num_hidden_layers = 1  # generation needs the attribute
        super().__init__(**{**dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), EOS_ID), **others})


class LmzooForCausalLM(transformers.PreTrainedModel, transformers.GenerationMixin):
    """A causal model of transformers whose logits are the log-probabilities of a model of the zoo, in nats.

    ``logits[:, t]`` is log p(x | the tokens up to t). `<eos>` at the beginning of a row is the sentence boundary before
    it, which a row without it has, too. After any other `<eos>`, a model of the context ``sentence`` starts anew.
    Positions where ``attention_mask`` is 0 are not read. Each call reads whole rows; there is no key-value cache.
    """

    config_class = LmzooConfig
    base_model_prefix = "lm"
    main_input_name = "input_ids"

    def __init__(self, config: LmzooConfig):
        super().__init__(config)
        require_plugins(config.lmzoo["plugins"], "the exported model")
        self.lm: LanguageModel = models.build(config.lmzoo["model"], vocabulary_size=config.vocab_size)
        self.generation_config = transformers.GenerationConfig(
            bos_token_id=EOS_ID, eos_token_id=EOS_ID, pad_token_id=EOS_ID, use_cache=False
        )
        self.post_init()

    def _init_weights(self, module: torch.nn.Module) -> None:
        """Leave the weights as they are."""

    @property
    def device(self) -> torch.device:
        """The device of the parameters and buffers; an n-gram model has no parameters."""
        return self.lm.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the log-probabilities."""
        return torch.get_default_dtype()

    @classmethod
    def from_pretrained(cls, folder: Any, *_: Any, config: Any = None, **options: Any) -> "LmzooForCausalLM":
        """Load a folder written by ``lmzoo export --hf``, or a repository with its files.

        The sizes of some models come from the state dict, so the loader of transformers, which sets tensors of known
        sizes one by one, is not used. Of its options, those of the place of files and ``device_map`` count; numbers
        have the precision of the model.
        """
        place = {name: options[name] for name in _PLACE if options.get(name) is not None}
        config = config if isinstance(config, LmzooConfig) else LmzooConfig.from_pretrained(folder, **place)
        file = imported("transformers.utils").cached_file(folder, WEIGHTS, **place)
        saved = imported("safetensors.torch").load_file(file) | config.lmzoo["extra_state"]
        model = cls(config)
        model.load_state_dict(saved)
        device = options.get("device_map")
        device = device.get("") if isinstance(device, dict) else device
        return model.to("cpu" if device in (None, "auto") else device).eval()

    def save_pretrained(self, save_directory: Any, **options: Any) -> None:
        """Write a folder for `from_pretrained`, with a copy of tied weights in each of their places."""
        copies = {name: value.clone() for name, value in self.state_dict().items() if isinstance(value, Tensor)}
        super().save_pretrained(save_directory, **{"state_dict": copies, **options})

    def prepare_inputs_for_generation(self, input_ids: Tensor, attention_mask: Any = None, **_: Any) -> dict[str, Any]:
        """The arguments of `forward` for the next token: whole rows, of which the last prediction counts."""
        return {"input_ids": input_ids, "attention_mask": attention_mask, "logits_to_keep": 1}

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        logits_to_keep: int = 0,
        return_dict: bool | None = None,
        **_: Any,
    ) -> Any:
        """Predict the next token after each position.

        Args:
            input_ids: (B, T) tokens.
            attention_mask: (B, T), 0 for positions that are not read.
            labels: (B, T) tokens, -100 for those that do not count; then the result has the mean -log p of each given
                those before it as its loss.
            logits_to_keep: of how many last positions the predictions are returned; 0: of all.
        """
        with nullcontext() if torch.is_grad_enabled() else evaluating(self.lm):
            logits = self._predictions(input_ids, attention_mask, logits_to_keep or input_ids.shape[1])
        loss = None
        if labels is not None:
            loss = F.nll_loss(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        if return_dict is False:
            return (logits,) if loss is None else (loss, logits)
        return imported("transformers.modeling_outputs").CausalLMOutput(loss=loss, logits=logits)

    def _predictions(self, tokens: Tensor, mask: Tensor | None, kept: int) -> Tensor:
        """(B, T) tokens -> (B, kept, V) log p of the next token after the last positions."""
        read = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask.bool()
        boundary = read & (tokens == EOS_ID)
        if self.config.lmzoo["context"] == "stream":
            boundary &= read.cumsum(1) == 1
        T, start = tokens.shape[1], self.lm.initial_state(len(tokens))
        plain = (read & ~boundary).all(0).tolist()
        state, logits, t = start, [], 0
        while t < T:
            end = t + 1
            while plain[t] and end < T - kept and plain[end]:  # read at once what needs no prediction
                end += 1
            after: State = self.lm(tokens[:, t:end], state)[1]
            if not plain[t]:
                after = where_rows(boundary[:, t], start, where_rows(read[:, t], after, state))
            state, t = after, end
            if t > T - kept:
                logits.append(self.lm.predict(state))
        return torch.stack(logits, 1)
