"""The pipeline's stages as functions: typed parameters in, artifacts under data/ out. A notebook calls one and shows what came out."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from rsi import paths
from rsi.harness.engine import RolloutConfig
from rsi.harness.episode import Episode
from rsi.harness.pool import RolloutPool
from rsi.harness.store import read_episodes, write_episodes
from rsi.params import Params, ParamsError, Suite
from rsi.persist import WorkDir, write_json
from rsi.policy.model import LoraConfig, Policy, load_format, load_policy, save_policy
from rsi.policy.sampling import Sampling
from rsi.tasks.archive import archive_of, unpacked
from rsi.tasks.load import load_suite
from rsi.tasks.task import Task


def rollout_config(params: Params) -> RolloutConfig:
    r = params.rollout
    return RolloutConfig(r.context, r.max_turns, r.turn_tokens, r.observation_chars, r.command_timeout_s)


def rollout_pool(params: Params) -> RolloutPool:
    torch.set_num_threads(1)
    return RolloutPool(params.rollout.workers, params.rollout.sandbox, params.rollout.chunk)


def work_dir(params: Params, name: str, *key: object, suites: Sequence[str] = ()) -> WorkDir:
    """Scratch space of a stage that rolls out: keyed by `key`, the rollout settings (workers change no result) and the archives
    of the task suites that it reads, in their order."""
    archives = [archive_of(paths.tasks(s)) for s in suites]
    return WorkDir(name, params.rollout.model_dump(exclude={"workers"}), list(suites), *archives, *key)


def make_tasks(params: Params) -> dict[str, int]:
    """Write the training pool and the evaluation suites as Harbor directories. Returns tasks a suite."""
    from rsi.sandbox import SandboxError, refusals
    from rsi.tasks.archive import pack
    from rsi.tasks.suites import make_suite, size

    counts = {}
    pool = Suite(name="pool", path=params.tasks.pool_path, limit=params.tasks.pool)
    if pool.path is None and params.tasks.pool > size("pool"):
        raise ParamsError(f"params.yaml: tasks.pool: the generator makes {size('pool')} tasks at most, got {params.tasks.pool}")
    for key, suite in {**params.tasks.suites, "pool": pool}.items():
        out = paths.tasks(key)
        if suite.path is not None and suite.path.resolve().is_relative_to(paths.DATA.resolve()):
            raise ParamsError(f"params.yaml: {suite.path} lies in {paths.DATA}, which the pipeline writes anew; copy your tasks to a directory outside it")
        shutil.rmtree(out, ignore_errors=True)
        if suite.path is None:
            counts[key] = len(make_suite(suite.name, params.tasks.seed, out, suite.limit))
        else:  # real tasks in the stand-in's place: copied, so that the pipeline knows what it ran on
            chosen = load_suite(suite.path)[: None if key == "pool" else suite.limit]
            if reasons := refusals(chosen, params.rollout.sandbox):  # before hours of runs without their files
                raise SandboxError(f"{suite.path}: {len(reasons)} of {len(chosen)} tasks cannot run here:\n" + "\n".join(reasons))
            for task in chosen:
                shutil.copytree(task.path, out / task.id)
            counts[key] = len(chosen)
        pack(out)
    return counts


def pool_tasks(params: Params) -> list[Task]:
    return load_suite(unpacked(paths.tasks("pool")))


def suite_tasks(params: Params, key: str) -> list[Task]:
    """The tasks of suite `key` as the tasks stage left them: generated, or copied from the path that params.yaml names."""
    return load_suite(unpacked(paths.tasks(key)))


def make_corpus(params: Params) -> list[Episode]:
    """Run the pretraining corpus in sandboxes; writes the transcripts and the tokenizer."""
    from rsi.base.corpus import run_corpus, save_format

    work = work_dir(params, "corpus", params.corpus.model_dump())
    with rollout_pool(params) as pool:
        episodes, fmt = run_corpus(params.corpus.transcripts, params.corpus.seed, params.corpus.vocab, pool, rollout_config(params), work)
    write_episodes(paths.episodes("corpus"), episodes)
    save_format(fmt, paths.DATA / "checkpoints" / "tokenizer")
    work.discard()
    return episodes


def make_base(params: Params) -> list[dict]:
    """Pretrain Base, or take the local model that params.yaml names. Returns the loss curve (empty for a given model)."""
    from rsi.base.pretrain import pretrain
    from rsi.tasks.words import WORDS

    torch.set_num_threads(1)
    if params.base.path is not None:
        save_policy(load_policy(params.base.path), paths.actor("base"))
        curve: list[dict] = []
    else:
        source, tokenizer = paths.episodes("corpus"), paths.DATA / "checkpoints" / "tokenizer"
        work = WorkDir("base", params.base.model_dump(mode="json"), params.rollout.context, source, tokenizer)
        policy, curve = pretrain(read_episodes(source), load_format(tokenizer), params.base, params.rollout.context, WORDS, work)
        save_policy(policy, paths.actor("base"))
        work.discard()
    write_json(paths.result("stages/base.json"), {"curve": curve[:: max(1, len(curve) // 200)]})
    return curve


def open_policy(params: Params, path: Path, work: WorkDir) -> tuple[Policy, Path]:
    """The policy to train and the checkpoint that workers sample from: with LoRA switched on, one that holds the adapter.

    Without it everything but the vocabulary is trained, see `Policy.freeze_vocabulary`.
    """
    if params.lora.enabled and not (path / "adapter_config.json").is_file():
        policy = load_policy(path, LoraConfig(params.lora.rank, params.lora.alpha))
        save_policy(policy, work.path / "with-adapter")
        return policy, work.path / "with-adapter"
    policy = load_policy(path)
    policy.freeze_vocabulary()
    return policy, path


def make_rsr(params: Params, cycle: int, seed: int) -> dict:
    """RSR-`cycle`: discovery, rewriting, execution, SFT. Returns the stage's yields."""
    from rsi.harness.jobs import choose
    from rsi.rsr import make_planner
    from rsi.rsr.stage import run_rsr
    from rsi.tasks.words import WORDS

    stage, settings = f"rsr{cycle}", params.rsr.of_cycle(cycle)
    source = paths.actor(paths.PARENT[stage], seed)
    everything = pool_tasks(params)
    work = work_dir(params, paths.run_name(stage, seed), settings.model_dump(exclude={"lr_cycle2"}), params.lora.model_dump(), source,
                    suites=["pool"])
    policy, ref = open_policy(params, source, work)
    planner, judge = make_planner(settings)
    tasks = choose(everything, min(settings.tasks, len(everything)), (seed, stage, "tasks"))
    with rollout_pool(params) as pool:
        kept, episodes, found, curve = run_rsr(tasks, ref, policy, pool, rollout_config(params), settings, planner, judge,
                                               stage=stage, seed=seed, work=work, words=WORDS)
    write_episodes(paths.episodes(f"rsr/{paths.run_name(stage, seed)}"), episodes)
    write_episodes(paths.episodes(f"rsr/{paths.run_name(stage, seed)}-kept"), kept)
    save_policy(policy, paths.actor(stage, seed))
    summary = {"yield": found.as_dict(), "loss": curve}
    write_json(paths.result(f"stages/{paths.run_name(stage, seed)}.json"), summary)
    work.discard()
    return summary


def fdr_scales(tasks: Sequence[Task]) -> dict[str, float]:
    """FDR's family scales, measured on the training pool: on the counts of the checks that do not hold before any work."""
    from rsi.rewards.rewards import family_scales

    totals: dict[str, list[int]] = {}
    for t in tasks:
        totals.setdefault(t.family, []).append(sum(not c.holds_before for c in t.checks))
    return family_scales(totals)


def make_rpr(params: Params, stage: str, seed: int) -> dict:
    """RPR-1, RPR-2 or direct PPO from Base (`stage`). Returns calibration and the per-step log."""
    from rsi.report.live import LiveLog
    from rsi.rewards.rewards import make_reward
    from rsi.rpr.critic import critic_from_actor, load_critic, save_critic
    from rsi.rpr.stage import Trainer, ppo_config, run_rpr

    tasks = pool_tasks(params)
    source = paths.actor(paths.PARENT[stage], seed)
    inherited = paths.critic("rpr1", seed) if stage == "rpr2" else None
    kind = params.reward.rpr2 if stage == "rpr2" else params.reward.rpr1 if stage == "rpr1" else params.reward.direct
    config = ppo_config(params.rpr, params.rpr.actor_lr_cycle2 if stage == "rpr2" else params.rpr.actor_lr)
    calibration = (params.rpr.recalibration_episodes, params.rpr.recalibration_epochs) if inherited else (params.rpr.warmup_episodes, params.rpr.warmup_epochs)
    work = work_dir(params, paths.run_name(stage, seed), asdict(config), calibration, params.rpr.steps, params.rpr.episodes, kind,
                    params.reward.beta if kind == "spr" else None, None if inherited else params.rpr.critic_head, params.lora.model_dump(), source,
                    *([inherited] if inherited else []), suites=["pool"])
    policy, ref = open_policy(params, source, work)
    scales = fdr_scales(tasks)
    critic = load_critic(inherited) if inherited else critic_from_actor(policy, params.rpr.critic_head, seed)
    trainer = Trainer(policy, critic, config, make_reward(kind, beta=params.reward.beta, scales=scales))
    with rollout_pool(params) as pool, LiveLog(paths.live(stage, seed), work) as log:
        episodes, summary = run_rpr(tasks, ref, trainer, pool, rollout_config(params), params.rpr, calibration=calibration, stage=stage, seed=seed, work=work,
                                    on_step=log.row)
    summary |= {"reward": kind, "scales": scales}
    write_episodes(paths.episodes(f"ppo/{paths.run_name(stage, seed)}"), episodes)
    save_policy(policy, paths.actor(stage, seed))
    save_critic(critic, paths.critic(stage, seed), made_from=str(inherited or source))
    write_json(paths.result(f"stages/{paths.run_name(stage, seed)}.json"), summary)
    work.discard()
    return summary


def make_evaluation(params: Params, stage: str, seed: int | None) -> list[Episode]:
    """All suites for one checkpoint: at the paper's sampling, and the four main suites at temperature 1."""
    from rsi.harness.evaluate import evaluate
    from rsi.params import FOUR

    e, actor = params.eval, paths.actor(stage, seed)
    name = paths.run_name(stage, seed)
    suites = {key: [replace(t, suite=key) for t in suite_tasks(params, key)] for key in params.tasks.suites}
    work = work_dir(params, f"eval-{name}", e.model_dump(exclude={"bootstrap"}), actor, suites=list(suites))
    cold = [(t, e.single_attempts if key in ("lhtb", "swr100") else e.attempts) for key, tasks in suites.items() for t in tasks]
    warm = [(t, e.warm_attempts) for key in FOUR for t in suites.get(key, [])]
    run = {"stage": stage, "seed": seed or 0, "work": work}
    with rollout_pool(params) as pool:
        episodes = tagged(evaluate(cold, actor, pool, rollout_config(params), Sampling(e.temperature, e.top_p, e.top_k), name="cold", **run), e.temperature)
        episodes += tagged(evaluate(warm, actor, pool, rollout_config(params), Sampling(e.warm_temperature), name="warm", **run), e.warm_temperature)
    write_episodes(paths.episodes(f"eval/{name}"), episodes)
    work.discard()
    return episodes


def tagged(episodes: list[Episode], temperature: float) -> list[Episode]:
    return [e.with_(extra={**e.extra, "temperature": temperature}) for e in episodes]
