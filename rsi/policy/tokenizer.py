"""The laptop tokenizer: names are single tokens, digits are split, byte-level BPE on the rest; saved as a normal HF tokenizer.

A name is the same id wherever it stands (after a space, a slash or a quote), so that copying a name is copying one token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SYSTEM, USER, ASSISTANT, END, PAD = "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|pad|>"
SPECIALS = (PAD, END, SYSTEM, USER, ASSISTANT)
CHAT_TEMPLATE = (
    "{%- for m in messages -%}"
    "<|{{ m['role'] }}|>{{ m['content'] }}<|end|>"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)
# Spaces go with the words around a name, never with the name: `directory amber` is [directory ][amber], so what precedes a
# name in the task also precedes it in the command, and copying is a matter of two neighbouring tokens. An extension is one
# piece, digits and newlines stand alone; but the number of a clause (`12. ` at the start of a line) is one token, so that it
# can tell its clause from the others.
_SPLIT = Regex(r"(?<!\d)\d{1,2}\. |\.[a-z]+ ?| ?[A-Za-z]+ ?|\d|\n| ?[^\sA-Za-z\d]+ ?|\s")
NUMBERS = tuple(f"{k}. " for k in range(1, 21))


def train_tokenizer(texts: Iterable[str], names: Sequence[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train on `texts` (the pretraining corpus: instructions, commands, observations) with `names` masked out.

    The same texts give the same tokenizer, byte for byte.
    """
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(_SPLIT, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIALS])
    core.add_tokens([AddedToken(n, single_word=True, normalized=False) for n in names])
    between = re.compile(r"\b(?:" + "|".join(map(re.escape, names)) + r")\b")
    masked = (piece for text in [*texts, *NUMBERS * 100] for piece in between.split(text) if piece)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size - len(names), special_tokens=list(SPECIALS), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), min_frequency=2)
    core.train_from_iterator(masked, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, pad_token=PAD, chat_template=CHAT_TEMPLATE,
                                   clean_up_tokenization_spaces=False, model_max_length=1 << 20)

