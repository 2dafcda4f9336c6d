"""A small GPT-2 and its tokenizer, trained in a second."""

from functools import cache
from pathlib import Path
from typing import Any

import torch

LINES = [
    "The cat sat on the mat.", "The dogs sat on the mats.", "A cat saw the dogs.", "The dogs saw a cat, too.",
    "Café dogs sat.", "The mat saw the cat's dog.",
]  # fmt: skip


@cache
def trained() -> tuple[Any, Any]:
    """The network and the tokenizer, of 300 byte-level pieces and a context of 32."""
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    made = ByteLevelBPETokenizer()
    made.train_from_iterator(
        LINES * 3, vocab_size=300, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False
    )
    marks = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made._tokenizer, **marks)
    torch.manual_seed(0)
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=2,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
        **ids,
    )
    network = transformers.GPT2LMHeadModel(config)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    end = tokenizer.eos_token
    rows = [tokenizer(f"{end}{line}{end}").input_ids for line in LINES]
    longest = max(map(len, rows))
    labels = torch.tensor([row + [-100] * (longest - len(row)) for row in rows])
    for _ in range(30):
        loss = network(input_ids=labels.clamp(min=0), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network.eval(), tokenizer


def saved(folder: Path) -> Path:
    """The folder of both."""
    for part in trained():
        part.save_pretrained(folder)
    return folder
