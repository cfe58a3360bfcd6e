"""Models on disk: the Base architecture, loading a policy (full or LoRA), and saving one as a normal HF checkpoint."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from rsi.policy.chat import ChatFormat
from rsi.policy.hf_sampler import HFSampler
from rsi.policy.qwen_sampler import QwenSampler


class CheckpointError(ValueError):
    """A checkpoint that is not what was asked for; names the path, what is wrong and the remedy."""


@dataclass(frozen=True)
class LoraConfig:
    rank: int = 8
    alpha: int = 16
    targets: str = "all-linear"


@dataclass
class Policy:
    """A model with its tokenizer's chat format. `sampler()` is the fast one where the architecture allows it."""

    model: torch.nn.Module
    format: ChatFormat

    @property
    def tokenizer(self):
        return self.format.tokenizer

    def sampler(self) -> QwenSampler | HFSampler:
        if type(self.model) is Qwen3ForCausalLM:
            return QwenSampler(self.model, self.format.stop_id)
        return HFSampler(self.model, self.format.stop_id)

    def trainable(self) -> list[torch.nn.Parameter]:
        return [p for p in self.model.parameters() if p.requires_grad]


def new_base(tokenizer, *, hidden: int, layers: int, heads: int, kv_heads: int, head_dim: int, mlp: int, positions: int, seed: int) -> Qwen3ForCausalLM:
    """A Qwen3-architecture model from random weights (paper: Qwen3.8-27B; sizes: measured to learn on a laptop).

    Weights are drawn for this width (std 0.1; the usual 0.02 is for widths of thousands), and the first heads start as
    previous-token heads: see `previous_token_heads`.
    """
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, intermediate_size=mlp, max_position_embeddings=positions,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        attention_dropout=0.0, initializer_range=0.1)
    model = Qwen3ForCausalLM(config)
    previous_token_heads(model, offsets=range(1, min(4, heads)))
    return model


@torch.no_grad()
def previous_token_heads(model: Qwen3ForCausalLM, offsets: Sequence[int], sharpness: float = 2.0) -> None:
    """Start head h of the first layer so that it attends `offsets[h]` positions back.

    Copying a name needs a head that knows what stood before each token; from random weights a model this small needs
    millions of tokens to find one. One embedding dimension starts as a constant; queries and keys read only it, and a
    phase of `offset` radians per frequency makes RoPE's score peak at that distance. Training is free to change all of it.
    """
    embed, attn = model.model.embed_tokens.weight, model.model.layers[0].self_attn
    dim, inv_freq = attn.head_dim, model.model.rotary_emb.inv_freq
    group = (attn.q_proj.weight.shape[0] // dim) // (attn.k_proj.weight.shape[0] // dim)
    embed[:, 0] = 4 * embed.std()
    for head, offset in enumerate(offsets):
        query, key = attn.q_proj.weight[head * dim : (head + 1) * dim], attn.k_proj.weight[head // group * dim : (head // group + 1) * dim]
        query.zero_(), key.zero_()
        for pair in (0, 1):  # the two highest frequencies tell neighbours apart
            key[pair, 0] = 1
            query[pair, 0], query[pair + dim // 2, 0] = torch.cos(offset * inv_freq[pair]), -torch.sin(offset * inv_freq[pair])
    attn.q_norm.weight.mul_(sharpness)
    attn.k_norm.weight.mul_(sharpness)


def load_policy(path: Path, lora: LoraConfig | None = None) -> Policy:
    """Load a local Hugging Face causal model, or a peft adapter directory on its base. float32, on CPU.

    `lora` puts a fresh adapter on a full checkpoint; only the adapter is then trainable.
    Raises CheckpointError when the directory is missing or is not a causal language model.
    """
    path = Path(path)
    if not (path / "config.json").is_file() and not (path / "adapter_config.json").is_file():
        raise CheckpointError(f"{path}: no config.json or adapter_config.json; name a directory that holds a causal model or a peft adapter")
    if (path / "value_head.safetensors").exists():
        raise CheckpointError(f"{path}: this is a critic (it has a value head); name an actor checkpoint")
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    if (path / "adapter_config.json").is_file():
        from peft import AutoPeftModelForCausalLM

        model = AutoPeftModelForCausalLM.from_pretrained(path, is_trainable=True, local_files_only=True, dtype=torch.float32)
    else:
        model = AutoModelForCausalLM.from_pretrained(path, local_files_only=True, dtype=torch.float32)
        if lora is not None:
            from peft import LoraConfig as PeftLora
            from peft import get_peft_model

            torch.manual_seed(0)
            model = get_peft_model(model, PeftLora(r=lora.rank, lora_alpha=lora.alpha, target_modules=lora.targets,
                                                   lora_dropout=0.0, task_type="CAUSAL_LM"))
    return Policy(model.eval(), ChatFormat(tokenizer))


def load_format(path: Path) -> ChatFormat:
    """The tokenizer and chat format of a checkpoint (or of a directory that holds only a tokenizer)."""
    return ChatFormat(AutoTokenizer.from_pretrained(path, local_files_only=True))


def save_policy(policy: Policy, path: Path) -> Path:
    """Save as `from_pretrained` expects it (adapter only where there is one), whole or not at all."""
    path = Path(path)
    part = path.with_name(path.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    policy.model.save_pretrained(part)
    policy.tokenizer.save_pretrained(part)
    replace_dir(part, path)
    return path


def replace_dir(part: Path, path: Path) -> None:
    """Move a finished directory into place."""
    old = path.with_name(path.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        os.replace(path, old)
    os.replace(part, path)
    shutil.rmtree(old, ignore_errors=True)
