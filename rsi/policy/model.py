"""Models on disk: the Base architecture, loading a policy (full or LoRA), and saving one as a normal HF checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from rsi.persist import replace_dir
from rsi.policy.chat import ChatFormat
from rsi.policy.hf_sampler import HFSampler
from rsi.policy.qwen_sampler import QwenSampler
from rsi.policy.tokenizer import NUMBERS


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

    def freeze_vocabulary(self) -> None:
        """Keep the input and output embeddings as they are (a LoRA leaves them alone anyway; [I], not from the paper).

        Adam takes a full step for every token whose gradient has one sign, however small, and each token that a small training
        set never shows has one: away from it. After a few hundred examples a command that they do not use cannot be written.
        """
        for part in (self.model.get_input_embeddings(), self.model.get_output_embeddings()):
            part.requires_grad_(False)  # a bias of the output too

    def trainable(self) -> list[torch.nn.Parameter]:
        return [p for p in self.model.parameters() if p.requires_grad]


def new_base(tokenizer, *, hidden: int, layers: int, heads: int, kv_heads: int, head_dim: int, mlp: int, positions: int, seed: int) -> Qwen3ForCausalLM:
    """A Qwen3-architecture model from random weights (paper: Qwen3.8-27B; sizes: measured to learn on a laptop).

    Random but for four heads, where the sizes allow it: see `induction_heads`.
    """
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, intermediate_size=mlp, max_position_embeddings=positions,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        attention_dropout=0.0, initializer_range=0.05, rope_parameters={"rope_type": "default", "rope_theta": 1e8})
    model = Qwen3ForCausalLM(config)
    if layers >= 2 and heads >= 3 and hidden >= 72 and head_dim == 64:
        induction_heads(model, tokenizer.convert_tokens_to_ids([tokenizer.tokenize(n)[0] for n in NUMBERS]))
    return model


@torch.no_grad()
def induction_heads(model: Qwen3ForCausalLM, numbers: Sequence[int]) -> None:
    """Start three heads of layer 0 and one of layer 1 as an induction circuit: find where the last two tokens stood before,
    under the same clause number, and say what followed there.

    numbers: ids of the clause-number tokens. Language models of many sizes grow induction heads (Olsson et al. 2022); one this
    small had them only in part after 5.7 M tokens from random weights, and without the number it mixes clauses that begin with
    the same words. Training is free to change all of it.

    Residual layout at the start: a constant, a mark on clause numbers, the token, then projections of the token one back, of
    the token two back, and of the last clause number. Layer 0 attends one and two back by position alone (queries and keys read
    the constant; a phase of `back` radians per frequency makes RoPE's score peak there), and to the nearest number (its key lies
    in frequencies whose sum falls with distance). Layer 1 compares (last, one back, number) with (one back, two back, number)
    in the slow frequencies, where RoPE hardly turns, and copies the token it finds.
    """
    embed, (first, second) = model.model.embed_tokens.weight, [layer.self_attn for layer in model.model.layers[:2]]
    dim, inv_freq = first.head_dim, model.model.rotary_emb.inv_freq
    token, one, two, tag = _layout(embed.shape[1])
    width, size, tag_size = token.stop - token.start, one.stop - one.start, tag.stop - tag.start
    project, project_tag = (torch.linalg.qr(torch.randn(width, n))[0].T for n in (size, tag_size))
    embed.mul_(4)
    embed[:, token.stop :] = 0
    embed[:, 0] = 4 * embed[:, token].std()
    embed[:, 1] = 0
    embed[list(numbers), 1] = embed[0, 0]
    for weight in (first.q_proj.weight[: 3 * dim], first.k_proj.weight[:dim], second.q_proj.weight[:dim], second.k_proj.weight[:dim]):
        weight.zero_()
    near, far = range(3), range(5, 13)  # the fastest frequencies tell neighbours apart, the next ones rank distances of a clause or two
    for pair in near:
        first.k_proj.weight[pair, 0] = 1
        for head, back in ((0, 1), (1, 2)):
            first.q_proj.weight[head * dim + pair, 0] = torch.cos(back * inv_freq[pair])
            first.q_proj.weight[head * dim + pair + dim // 2, 0] = -torch.sin(back * inv_freq[pair])
    for pair in far:
        first.k_proj.weight[pair, 1] = (len(near) / len(far)) ** 0.5
        first.q_proj.weight[2 * dim + pair, 0] = 1
    # what a key has more in `far` as a number it has less here: all keys keep one length through their normalisation
    first.k_proj.weight[dim - 1, 0], first.k_proj.weight[dim - 1, 1] = len(near) ** 0.5, -(len(near) ** 0.5)
    for attn, sharp in ((first, 2.4), (second, 1.7)):
        attn.v_proj.weight[:dim] = 0
        attn.v_proj.weight[:width, token] = torch.eye(width)
        attn.q_norm.weight.mul_(sharp)
        attn.k_norm.weight.mul_(sharp)
    for head, part, projection in ((0, one, project), (1, two, project), (2, tag, project_tag)):
        first.o_proj.weight[:, head * dim : (head + 1) * dim] = 0
        first.o_proj.weight[part, head * dim : head * dim + width] = 0.5 * projection
    slow = [*range(13, dim // 2), *range(dim // 2 + 13, dim)]
    at_one, at_two, at_tag = slow[:size], slow[size : 2 * size], slow[2 * size :]
    second.q_proj.weight[at_one, token], second.k_proj.weight[at_one, one] = project, torch.eye(size)
    second.q_proj.weight[at_two, one], second.k_proj.weight[at_two, two] = torch.eye(size), torch.eye(size)
    second.q_proj.weight[at_tag, tag], second.k_proj.weight[at_tag, tag] = torch.eye(tag_size), torch.eye(tag_size)
    second.o_proj.weight[:, :dim] = 0
    second.o_proj.weight[token, :width] = 1.5 * torch.eye(width)


def _layout(hidden: int) -> tuple[slice, slice, slice, slice]:
    """Dimensions of the token, of the one and two back, and of the clause number (dimensions 0 and 1 are the constant and the mark)."""
    token = hidden - 13 - 13 - 12
    return slice(2, token), slice(token, token + 13), slice(token + 13, token + 26), slice(token + 26, hidden)


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
