"""The folder that ``AutoModelForCausalLM`` and ``AutoTokenizer`` of transformers load, of a model of the zoo."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from lmzoo.corpus import EOS, Context, Vocabulary
from lmzoo.corpus.vocabulary import EOS_ID, UNK
from lmzoo.huggingface.extra import imported
from lmzoo.huggingface.tokenizer import special_words, tokenizer
from lmzoo.protocol.model import LanguageModel

WEIGHTS = "model.safetensors"

CODE_FILE = "modeling_lmzoo.py"

_CODE = '"""The model needs lmzoo: pip install lmzoo-torch"""\n\n' + (
    "from lmzoo.huggingface.modeling import LmzooConfig, LmzooForCausalLM\n\n"
    '__all__ = ["LmzooConfig", "LmzooForCausalLM"]\n'
)


def files(
    model: LanguageModel, vocabulary: Vocabulary, options: Mapping[str, Any], context: Context, plugins: Sequence[str]
) -> dict[str, bytes]:
    """The contents of the files of a folder, by name.

    Args:
        options: from which the model is built, with its name.
        context: what it was trained with.
        plugins: the modules that it needs.
    """
    state = {f"lm.{name}": value for name, value in model.state_dict().items()}
    tensors = {name: value.cpu().contiguous().clone() for name, value in state.items() if isinstance(value, Tensor)}
    of_model = {"model": dict(options), "context": context, "plugins": list(plugins)}
    of_model["extra_state"] = {name: value for name, value in state.items() if name not in tensors}
    boundary = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), EOS_ID)
    classes = {"AutoConfig": "modeling_lmzoo.LmzooConfig", "AutoModelForCausalLM": "modeling_lmzoo.LmzooForCausalLM"}
    config = {
        **{"model_type": "lmzoo", "architectures": ["LmzooForCausalLM"], "auto_map": classes},
        **{"vocab_size": len(vocabulary), **boundary, "lmzoo": of_model},
    }
    boundary_words = dict.fromkeys(("bos_token", "eos_token", "pad_token"), EOS)
    of_tokenizer = {
        **{"tokenizer_class": "PreTrainedTokenizerFast", **boundary_words, "padding_side": "left"},
        **({"unk_token": UNK} if UNK in special_words(vocabulary) else {}),
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    return {
        "config.json": _json(config),
        "generation_config.json": _json({**boundary, "use_cache": False}),
        CODE_FILE: _CODE.encode(),
        WEIGHTS: imported("safetensors.torch").save(tensors, metadata={"format": "pt"}),
        "tokenizer.json": tokenizer(vocabulary).to_str().encode(),
        "tokenizer_config.json": _json(of_tokenizer),
    }


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=2).encode() + b"\n"
