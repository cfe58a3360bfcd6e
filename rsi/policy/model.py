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

    Random but for two heads: see `induction_heads`.
    """
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, intermediate_size=mlp, max_position_embeddings=positions,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        attention_dropout=0.0, initializer_range=0.05, rope_parameters={"rope_type": "default", "rope_theta": 1e6})
    model = Qwen3ForCausalLM(config)
    if layers >= 2 and heads >= 2:
        induction_heads(model)
    return model


@torch.no_grad()
def induction_heads(model: Qwen3ForCausalLM) -> None:
    """Start two heads of layer 0 and one of layer 1 as an induction circuit: find where the last two tokens stood before, and
    say what followed there.

    Language models of many sizes grow such heads (Olsson et al. 2022); one this small had them only in part after 5.7 M tokens
    from random weights (35-80 % of the names of a restated clause right). Training is free to change all of it.

    Residual layout at the start: dimension 0 a constant, then the token, then a projection of the token one back, then of
    the token two back. Layer 0 attends one and two back by position alone (queries and keys read the constant; a phase of
    `back` radians per frequency makes RoPE's score peak there). Layer 1 compares (last, one back) with (one back, two back)
    in the slow frequencies, where RoPE hardly turns, and copies the token it finds.
    """
    embed, (first, second) = model.model.embed_tokens.weight, [layer.self_attn for layer in model.model.layers[:2]]
    hidden, dim, inv_freq = embed.shape[1], first.head_dim, model.model.rotary_emb.inv_freq
    size = min((hidden - 1) // 4, dim // 4)
    token = slice(1, min(1 + dim, hidden - 2 * size))
    width = token.stop - token.start
    one, two = slice(token.stop, token.stop + size), slice(token.stop + size, token.stop + 2 * size)
    project = torch.linalg.qr(torch.randn(width, size))[0].T
    embed.mul_(4)
    embed[:, 0] = 4 * embed.std()
    embed[:, token.stop :] = 0
    for weight in (first.q_proj.weight[: 2 * dim], first.k_proj.weight[:dim], second.q_proj.weight[:dim], second.k_proj.weight[:dim]):
        weight.zero_()
    for pair in (0, 1, 2):  # the fastest frequencies tell neighbours apart
        first.k_proj.weight[pair, 0] = 1
        for head, back in ((0, 1), (1, 2)):
            first.q_proj.weight[head * dim + pair, 0] = torch.cos(back * inv_freq[pair])
            first.q_proj.weight[head * dim + pair + dim // 2, 0] = -torch.sin(back * inv_freq[pair])
    for attn in (first, second):
        attn.v_proj.weight[:dim] = 0
        attn.v_proj.weight[:width, token] = torch.eye(width)
        attn.q_norm.weight.mul_(2.0 if attn is first else 1.5)
        attn.k_norm.weight.mul_(2.0 if attn is first else 1.5)
    for head, part in ((0, one), (1, two)):
        first.o_proj.weight[:, head * dim : (head + 1) * dim] = 0
        first.o_proj.weight[part, head * dim : head * dim + width] = 0.5 * project
    slow, slower = slice(dim // 2 - size, dim // 2), slice(dim - size, dim)
    second.q_proj.weight[slow, token], second.k_proj.weight[slow, one] = project, torch.eye(size)
    second.q_proj.weight[slower, one], second.k_proj.weight[slower, two] = torch.eye(size), torch.eye(size)
    second.o_proj.weight[:, :dim] = 0
    second.o_proj.weight[token, :width] = 1.5 * torch.eye(width)


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
