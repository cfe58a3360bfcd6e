"""A killed RPR stage goes on to the same bytes: calibration, steps and rollouts, with real sandboxes and a tiny policy."""

from dataclasses import replace

import pytest
import torch

from rsi.harness.engine import RolloutConfig
from rsi.harness.pool import RolloutPool
from rsi.params import load_params
from rsi.persist import WorkDir
from rsi.policy.model import Policy, load_policy, new_base, save_policy
from rsi.rpr.critic import critic_from_actor
from rsi.rpr.ppo import PPOConfig
from rsi.rpr.stage import Trainer, run_rpr

CONFIG = RolloutConfig(context=256, turn_tokens=24, max_turns=3)
KILLS = ["calibrated.pt", "ppo.pt 0", "ppo.pt 1"]


def by_family(graded):
    """A reward that differs between episodes though nothing is solved, so that there is something to learn."""
    return 0.3 * (len(graded.family) % 4)


class Killed(Exception):
    pass


class DyingWorkDir(WorkDir):
    """A WorkDir whose process ends right after the n-th save of `name` (nothing later of that process is seen)."""

    def __init__(self, *key, dies_after: str, root):
        super().__init__(*key, root=root)
        self.name, _, number = dies_after.partition(" ")
        self.left = int(number or 0)

    def save(self, name, state):
        super().save(name, state)
        if name == self.name:
            if self.left == 0:
                raise Killed
            self.left -= 1


@pytest.fixture(scope="module")
def tasks(corpus_of_tasks, fmt):
    """Short prompts: an untrained policy says nothing of use anyway."""
    return [replace(t, instruction="1. do it.") for t in corpus_of_tasks if len(t.metadata["steps"]) == 1][:6]


@pytest.fixture(scope="module")
def actor(fmt, tmp_path_factory):
    model = new_base(fmt.tokenizer, hidden=16, layers=1, heads=2, kv_heads=1, head_dim=8, mlp=32, positions=256, seed=0).eval()
    return save_policy(Policy(model, fmt), tmp_path_factory.mktemp("actor") / "actor")


@pytest.fixture(scope="module")
def run(tasks, actor):
    """run(work): (weights of actor and critic, summary, episode streams, steps logged by this process)."""
    params = load_params().rpr.model_copy(update={"steps": 3, "episodes": 6})
    with RolloutPool(workers=1, chunk=8) as pool:

        def run(work):
            policy, rows = load_policy(actor), []
            trainer = Trainer(policy, critic_from_actor(policy), PPOConfig(actor_lr=1e-2, critic_lr=1e-2), by_family)
            episodes, summary = run_rpr(tasks, actor, trainer, pool, CONFIG, params, calibration=(10, 2), stage="rpr1", seed=0, work=work, on_step=rows.append)
            weights = torch.cat([p.detach().flatten() for m in (policy.model, trainer.critic) for p in m.parameters()])
            return weights, summary, [(e.id, e.tokens.tolist()) for e in episodes], [r["step"] for r in rows]

        yield run


@pytest.fixture(scope="module")
def whole(run, actor, tmp_path_factory):
    weights, summary, episodes, logged = run(WorkDir("whole", root=tmp_path_factory.mktemp("whole")))
    assert logged == [0, 1, 2] and len(episodes) == 10 + 3 * 6
    start = load_policy(actor)
    first = torch.cat([p.detach().flatten() for p in start.model.parameters()])
    assert (weights[: len(first)] - first).abs().max() > 1e-3 and summary["steps"][2]["kl"] > 0  # it trains, beyond weight decay
    return weights, summary, episodes


@pytest.mark.parametrize("kill", KILLS)
def test_a_killed_stage_ends_as_one_that_was_not(kill, run, whole, tmp_path):
    with pytest.raises(Killed):
        run(DyingWorkDir("w", dies_after=kill, root=tmp_path))
    weights, summary, episodes, logged = run(WorkDir("w", root=tmp_path))
    assert logged == list(range({"calibrated.pt": 0, "ppo.pt 0": 1, "ppo.pt 1": 2}[kill], 3))  # what was done is not done again
    assert torch.equal(weights, whole[0])
    assert summary == whole[1] or str(summary) == str(whole[1])  # NaN equals itself as text only
    assert episodes == whole[2]
