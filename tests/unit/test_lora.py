"""One RSR and one RPR step with a LoRA adapter on a model of another architecture: nothing in the stages is Qwen's alone."""

from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rsi.base.corpus import encode, save_format
from rsi.harness.engine import Job, RolloutConfig
from rsi.harness.pool import PolicyRef, RolloutPool
from rsi.params import load_params
from rsi.persist import WorkDir
from rsi.policy.batch import Example
from rsi.policy.model import LoraConfig, Policy, load_policy, save_policy
from rsi.policy.train import TrainConfig, train_lm
from rsi.rewards.rewards import spr
from rsi.rpr.critic import critic_from_actor
from rsi.rpr.stage import Trainer, ppo_config, run_rpr
from rsi.rsr.runbook import ProgrammaticJudge, ProgrammaticPlanner
from rsi.rsr.stage import run_rsr
from rsi.tasks.words import WORDS

CONFIG = RolloutConfig(context=512, turn_tokens=80, max_turns=6)


@pytest.fixture(scope="module")
def tasks(corpus_of_tasks):
    return [t for t in corpus_of_tasks if len(t.metadata["steps"]) == 1 and t.family not in ("reconstruct", "chain")][:5]


@pytest.fixture(scope="module")
def pool():
    with RolloutPool(workers=1, chunk=16) as pool:
        yield pool


@pytest.fixture(scope="module")
def start(tasks, fmt, written, claim, pool, tmp_path_factory):
    """A small Llama that has read (and nearly learned by heart) executed transcripts of these tasks, saved as a checkpoint."""
    root = tmp_path_factory.mktemp("lora")
    tokenizer = save_format(fmt, root / "tokenizer")
    jobs = [Job(t, h) for t in tasks for h in ("terminus", "reflect", "statem")]
    read = pool.run(jobs, PolicyRef(tokenizer), CONFIG, stage="read", seed=0, work=root / "read", scripts=[[*written(j.task), claim] for j in jobs])
    assert all(e.verdict.strict for e in read if e.harness != "statem")
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(fmt.tokenizer), hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                         intermediate_size=128, max_position_embeddings=512, initializer_range=0.1, eos_token_id=fmt.stop_id))
    by_id = {t.id: t for t in tasks}
    examples = [Example(e.tokens, e.mask) for e in (encode(x, by_id[x.task], fmt) for x in read)]
    train_lm(model, examples, TrainConfig(lr=5e-3, epochs=60, batch_tokens=1024, warmup_steps=10), key=("lora",), work=WorkDir("w", root=root))
    return save_policy(Policy(model, fmt), root / "start")


def test_rsr_and_rpr_train_an_adapter_on_another_architecture(start, tasks, pool, tmp_path):
    params = load_params()
    rsr = params.rsr.model_copy(update={"samples": {"terminus": 1, "reflect": 2}, "runbooks": 1, "executions": 1, "renamed": 1, "epochs": 2.0})
    work = WorkDir("rsr", root=tmp_path)
    policy = load_policy(start, LoraConfig(rank=4, alpha=8))
    frozen = {n: p.detach().clone() for n, p in policy.model.named_parameters() if not p.requires_grad}
    adapter = save_policy(policy, tmp_path / "adapter")
    before = torch.cat([p.detach().flatten().clone() for p in policy.trainable()])
    kept, episodes, found, curve = run_rsr(tasks, adapter, policy, pool, CONFIG, rsr, ProgrammaticPlanner(), ProgrammaticJudge(), stage="rsr1", seed=0,
                                           work=work, words=WORDS)
    assert found.counts["sources"] and found.counts["executions"] and kept and curve
    assert all(e.verdict.strict and "notes:" not in policy.tokenizer.decode(e.tokens) for e in kept)
    assert not torch.equal(before, torch.cat([p.detach().flatten() for p in policy.trainable()]))
    trained = save_policy(policy, tmp_path / "rsr1")
    assert (trained / "adapter_config.json").is_file() and not (trained / "model.safetensors").exists()

    policy = load_policy(trained)
    trainer = Trainer(policy, critic_from_actor(policy), ppo_config(params.rpr, 1e-3), spr)
    rpr = params.rpr.model_copy(update={"steps": 1, "episodes": 10})
    episodes, summary = run_rpr(tasks, trained, trainer, pool, CONFIG, rpr, calibration=(10, 1), stage="rpr1", seed=0, work=WorkDir("rpr", root=tmp_path))
    assert len(episodes) == 20 and len(summary["steps"]) == 1
    assert summary["steps"][0]["logprob_gap"] < 1e-4  # the sampler and the trainer see the same adapter
    for n, p in policy.model.named_parameters():
        assert n not in frozen or torch.equal(frozen[n], p)


def test_logprobs_of_real_episodes_equal_a_forward_pass(start, tasks, pool, tmp_path):
    """Every stored token of episodes that ran in sandboxes, against transformers."""
    jobs = [Job(t, h) for t in tasks for h in ("terminus", "reflect")]
    episodes = pool.run(jobs, PolicyRef(start), replace(CONFIG), stage="check", seed=1, work=tmp_path)
    model = load_policy(start).model
    checked = 0
    for e in episodes:
        with torch.no_grad():
            logprobs = model(torch.tensor(e.tokens[None].astype("int64"))).logits[0].log_softmax(-1)
        for j in e.mask.nonzero()[0]:
            assert abs(float(logprobs[j - 1, int(e.tokens[j])]) - float(e.logprobs[j])) < 1e-4
            checked += 1
    assert checked > 200
