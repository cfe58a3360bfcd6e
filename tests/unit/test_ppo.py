"""PPO and the critic on tiny real models: resumes to the same bytes, refuses the wrong checkpoint, equals itself in any batching."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from rsi.harness.episode import Episode, Turn
from rsi.policy.batch import collate
from rsi.policy.chat import ChatFormat
from rsi.policy.forward import Replicas, target_logprobs
from rsi.policy.model import CheckpointError, Policy, load_policy, new_base, save_policy
from rsi.policy.qwen_sampler import QwenSampler
from rsi.policy.sampling import Sampling
from rsi.policy.tokenizer import train_tokenizer
from rsi.rewards.rewards import raw_ratio
from rsi.rpr.critic import critic_from_actor, explained_variance, load_critic, save_critic
from rsi.rpr.ppo import PPOConfig, actor_loss, critic_loss, evaluate, make_optimizer, ppo_step, update_critic
from rsi.rpr.stage import Trainer
from rsi.sandbox.protocol import Verdict
from rsi.tasks.task import CheckSpec

CONFIG = PPOConfig(actor_lr=1e-3, critic_lr=1e-2, micro_tokens=256)


def new_policy(seed=0):
    tokenizer = train_tokenizer(["1. copy the file amber.txt"] * 4, ["amber"], 300)
    return Policy(new_base(tokenizer, hidden=16, layers=1, heads=2, kv_heads=1, head_dim=8, mlp=32, positions=128, seed=seed).eval(), ChatFormat(tokenizer))


def sampled_episodes(policy, count=12, run=0):
    """Two-turn episodes really sampled from the policy; strict where the first sampled id is even."""
    session = QwenSampler(policy.model, policy.format.stop_id).session([(run, r) for r in range(count)], 128, Sampling())
    parts = {r: ([], [], [], []) for r in range(count)}
    for turn in range(2):
        feeds = {r: list(range(6, 10 + (r + turn) % 3)) for r in range(count)}
        out = session.turn(feeds, {r: 5 + r % 4 for r in range(count)})
        for r in range(count):
            tokens, mask, logprobs, turns = parts[r]
            start = len(tokens) + len(feeds[r])
            tokens += feeds[r] + out[r].ids
            mask += [False] * len(feeds[r]) + [True] * len(out[r].ids)
            logprobs += [0.0] * len(feeds[r]) + out[r].logprobs
            turns.append(Turn(start, len(tokens), "", "ls", ""))
    episodes = []
    for r, (tokens, mask, logprobs, turns) in parts.items():
        strict = tokens[turns[0].start] % 2 == 0
        episodes.append(Episode("t", "f", "pool", "terminus", "rpr1", 0, r, np.asarray(tokens, np.int32), np.asarray(mask), np.asarray(logprobs, np.float32),
                                tuple(turns), turns[0].start, r % 5 == 0, Verdict({"a": True, "b": strict}, strict), (CheckSpec("a"), CheckSpec("b"))))
    return episodes


def new_trainer(policy=None, config=CONFIG):
    policy = policy or new_policy()
    return Trainer(policy, critic_from_actor(policy), config, raw_ratio)


def steps(trainer, episodes, numbers):
    with ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,)) as pair:
        return [ppo_step(trainer.policy.model, trainer.actor_optimizer, trainer.critic, trainer.critic_optimizer, trainer.rollout(episodes), trainer.config,
                         key=(0, n), pair=pair) for n in numbers]


def weights(trainer):
    return torch.cat([p.detach().flatten() for m in (trainer.policy.model, trainer.critic) for p in m.parameters()])


def critic_weights(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.critic.parameters()])


@pytest.fixture(scope="module")
def episodes():
    return sampled_episodes(new_policy())


def test_case_16_at_learning_rate_zero_the_ratio_is_one(episodes):
    trainer = new_trainer(config=replace(CONFIG, actor_lr=0.0))
    stats = steps(trainer, episodes, [0])[0]
    assert stats["logprob_gap"] < 1e-4 and stats["clip_fraction"] == 0 and stats["kl"] < 1e-8


def test_case_20_two_and_two_steps_equal_four(episodes):
    whole, first = new_trainer(), new_trainer()
    steps(whole, episodes, range(4))
    steps(first, episodes, range(2))
    second = new_trainer(new_policy(seed=7))
    second.restore(first.state())
    steps(second, episodes, range(2, 4))
    assert torch.equal(weights(whole), weights(second))


def test_an_update_does_not_depend_on_the_packing(episodes):
    one, other = new_trainer(), new_trainer(config=replace(CONFIG, micro_tokens=40))
    steps(one, episodes, [0])
    steps(other, episodes, [0])
    torch.testing.assert_close(weights(one), weights(other), rtol=0, atol=2e-4)


def test_ppo_raises_the_reward_of_what_is_rewarded(episodes):
    """The reward is decided by the first sampled token; after some steps even ids are likelier."""
    policy = new_policy()
    trainer = new_trainer(policy, replace(CONFIG, actor_lr=1e-2))
    before = np.mean([e.verdict.strict for e in sampled_episodes(policy, 200, run=99)])
    for n in range(40):
        steps(trainer, sampled_episodes(policy, 128, run=n), [n])
    after = np.mean([e.verdict.strict for e in sampled_episodes(policy, 200, run=99)])
    assert after > before + 0.2, (before, after)


def test_the_critic_learns_the_returns(episodes):
    trainer = new_trainer()
    rollout = trainer.rollout(episodes)
    evaluate(rollout, trainer.critic, CONFIG)
    assert explained_variance(rollout.returns, rollout.values) == pytest.approx(0, abs=1e-6)  # zero head: V = 0
    optimizer = make_optimizer(trainer.critic, 1e-2, CONFIG)
    config = replace(CONFIG, lam=1.0, value_clip=1e9)
    for n in range(30):
        evaluate(rollout, trainer.critic, config)
        update_critic(Replicas(trainer.critic, 1), optimizer, rollout, config, (n,))
    evaluate(rollout, trainer.critic, config)
    assert explained_variance(rollout.returns, rollout.values) > 0.5


def test_running_into_the_limit_is_never_worth_more_than_submitting():
    """A cut-off solved run keeps its reward and no bootstrap; a cut-off unsolved one gets the value and not its partial credit.
    The critic hears of the partial credit all the same."""
    trainer = new_trainer()
    torch.nn.init.constant_(trainer.critic.head.bias, 0.7)
    runs = sampled_episodes(new_policy(), 12)
    config = replace(CONFIG, gamma=1.0, lam=1.0)
    by_cut = {}
    for cut in (False, True):
        rollout = trainer.rollout([replace(e, truncated=cut) for e in runs])
        evaluate(rollout, trainer.critic, config)
        last = [w.stop - 1 for w in rollout.where]
        by_cut[cut] = (rollout.advantages + rollout.values)[last].tolist()
        assert rollout.returns[last].tolist() == pytest.approx([1.0 if e.verdict.strict else 0.5 for e in runs])
    for e, submitted, cut_off in zip(runs, by_cut[False], by_cut[True], strict=True):
        assert submitted == pytest.approx(1.0 if e.verdict.strict else 0.5)
        assert cut_off == pytest.approx(1.0 if e.verdict.strict else 0.7)


def test_losses_by_hand():
    old, new = torch.tensor([-1.0, -1.0]), torch.tensor([-1.0 + np.log(1.5), -1.0 + np.log(0.5)])
    loss, clipped = actor_loss(new, old, torch.tensor([1.0, -1.0]), 0.2)
    assert float(loss) == pytest.approx(-1.2 + 0.8) and int(clipped) == 2
    assert float(critic_loss(torch.tensor([1.0]), torch.tensor([0.0]), torch.tensor([1.0]), 0.2)) == pytest.approx(0.5 * 0.8**2)


def test_case_19_an_actor_is_not_a_critic_and_a_critic_not_an_actor(tmp_path):
    policy = new_policy()
    actor = save_policy(policy, tmp_path / "actor")
    with pytest.raises(CheckpointError, match="not a critic"):
        load_critic(actor)
    critic = critic_from_actor(policy, "random", seed=1)
    path = save_critic(critic, tmp_path / "critic", "actor")
    with pytest.raises(CheckpointError, match="is a critic"):
        load_policy(path)
    (path / "value_head.safetensors").rename(tmp_path / "head")
    with pytest.raises(CheckpointError, match="no value_head"):
        load_critic(path)


def test_case_19_the_next_stage_inherits_weights_and_no_moments(tmp_path, episodes):
    """The heir's next update is that of a fresh optimizer on the same weights, and not the one the first stage would have made."""
    first = new_trainer()
    steps(first, episodes, range(2))
    path = save_critic(first.critic, tmp_path / "critic", "rpr1")
    heir = Trainer(new_policy(), load_critic(path), CONFIG, raw_ratio)
    fresh = new_trainer()
    fresh.critic.load_state_dict(first.critic.state_dict())
    assert torch.equal(critic_weights(heir), critic_weights(first))
    for trainer in (heir, fresh, first):
        steps(trainer, episodes, [2])
    assert torch.equal(critic_weights(heir), critic_weights(fresh))
    assert not torch.allclose(critic_weights(heir), critic_weights(first), atol=1e-4)


def test_case_13_sampled_ids_reach_training_though_their_text_encodes_differently(episodes):
    """Through make_rollout and collate: the targets are the very ids, and their log-probabilities the sampler's."""
    policy = new_policy()
    rollout = new_trainer(policy).rollout(episodes)
    batch = collate(rollout.examples)
    targets = batch.tokens[batch.rows, batch.cols].tolist()
    sampled = [i for e in episodes for i in e.tokens[e.mask].tolist()]
    assert targets == sampled
    encoded = [policy.tokenizer.encode(policy.tokenizer.decode(e.tokens[t.start : t.end]), add_special_tokens=False) for e in episodes for t in e.turns]
    assert [i for ids in encoded for i in ids] != sampled  # encoding the text again would train on other ids
    with torch.no_grad():
        torch.testing.assert_close(target_logprobs(policy.model, batch)[0], rollout.old, rtol=0, atol=1e-4)


def test_explained_variance_is_global_and_undefined_without_variance():
    returns = torch.tensor([0.0, 0.0, 1.0, 1.0])
    assert explained_variance(returns, returns) == 1.0
    assert explained_variance(returns, torch.zeros(4)) == 0.0
    assert explained_variance(returns, 1 - 2 * returns) == pytest.approx(1 - 9.0)
    assert np.isnan(explained_variance(torch.ones(3), torch.zeros(3)))
