"""What a stage trains: everything but the vocabulary, whose unseen rows Adam would otherwise push away."""

import torch

from rsi.params import load_params
from rsi.persist import WorkDir
from rsi.policy.batch import Example
from rsi.policy.model import Policy, load_policy, new_base, save_policy
from rsi.policy.train import TrainConfig, train_lm
from rsi.stages import open_policy


def test_a_token_that_training_never_shows_can_still_be_written(fmt, tmp_path):
    """The same few examples, with the vocabulary frozen and not: only in the second case do unseen tokens lose their place."""
    shown = fmt.tokenizer("copy the file walrus.txt to banana.txt", return_tensors="np")["input_ids"][0]
    unseen = sorted(set(range(len(fmt.tokenizer))) - set(shown.tolist()))
    examples = [Example(shown, shown >= 0)] * 4

    def trained(freeze):
        policy = Policy(new_base(fmt.tokenizer, hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, mlp=32, positions=64, seed=0), fmt)
        before = {n: p.detach().clone() for n, p in policy.model.named_parameters()}
        if freeze:
            policy.freeze_vocabulary()
        train_lm(policy.model, examples, TrainConfig(lr=1e-3, epochs=30, warmup_steps=1), key=(0,), work=WorkDir(f"w{freeze}", root=tmp_path))
        return policy, {n: (p.detach() - before[n]).abs() for n, p in policy.model.named_parameters()}

    policy, moved = trained(freeze=True)
    assert moved.pop("model.embed_tokens.weight").max() == 0 and all(m.max() > 0 for m in moved.values())
    _, free = trained(freeze=False)
    # full steps, from almost no gradient
    assert free["model.embed_tokens.weight"][unseen].mean() > 0.5 * free["model.layers.0.self_attn.q_proj.weight"].mean()

    again = load_policy(save_policy(policy, tmp_path / "saved")).model
    assert again.lm_head.weight.data_ptr() == again.model.embed_tokens.weight.data_ptr()
    assert torch.equal(again.lm_head.weight, policy.model.lm_head.weight)


def test_a_stage_opens_its_policy_with_the_vocabulary_frozen_and_an_adapter_as_it_is(fmt, tmp_path):
    model = new_base(fmt.tokenizer, hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, mlp=32, positions=64, seed=0)
    full, params = save_policy(Policy(model, fmt), tmp_path / "full"), load_params()
    lora = params.model_copy(update={"lora": params.lora.model_copy(update={"enabled": True, "rank": 2})})

    def opened(params, path):
        policy, ref = open_policy(params, path, WorkDir("open", root=tmp_path))
        return {n for n, p in policy.model.named_parameters() if p.requires_grad}, ref

    names, ref = opened(params, full)
    assert ref == full and names == {n for n, _ in model.named_parameters()} - {"model.embed_tokens.weight"}
    fresh, adapter = opened(lora, full)
    again, ref = opened(lora, adapter)
    assert ref == adapter and fresh == again and all("lora_" in n for n in fresh)
