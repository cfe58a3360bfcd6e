"""params.yaml as typed models: every stage reads its settings from here. A wrong key or value names file, field and remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

PARAMS = Path("params.yaml")
FOUR = ("tb21", "hard", "tb3", "tb4")


class ParamsError(ValueError):
    """params.yaml cannot be used; the text names the field and the remedy."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Suite(_Strict):
    """A generated stand-in, or `path` to a directory of real Harbor tasks. `limit`: the first tasks only."""

    name: str = ""
    path: Path | None = None
    limit: int | None = Field(None, gt=0)


class Tasks(_Strict):
    seed: int
    pool: int = Field(gt=0)
    pool_path: Path | None = None
    suites: dict[str, Suite]


class Corpus(_Strict):
    transcripts: int = Field(gt=0)
    seed: int
    vocab: int = Field(gt=300)


class Base(_Strict):
    """`path`: a local Hugging Face causal model that takes the place of the pretrained Base."""

    path: Path | None = None
    hidden: int = Field(gt=0)
    layers: int = Field(gt=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    mlp: int = Field(gt=0)
    short_tokens: int = Field(gt=0)
    lr: float = Field(gt=0)
    epochs: float = Field(gt=0)
    batch_tokens: int = Field(gt=0)
    seed: int


class Lora(_Strict):
    enabled: bool = False
    rank: int = 8
    alpha: int = 16


class Rollout(_Strict):
    sandbox: Literal["bubblewrap"] = "bubblewrap"
    workers: int = Field(2, gt=0)
    chunk: int = Field(48, gt=0)
    context: int = Field(gt=0)
    max_turns: int = Field(gt=0)
    turn_tokens: int = Field(gt=0)
    observation_chars: int = Field(gt=0)
    command_timeout_s: float = Field(gt=0)


class Rsr(_Strict):
    """samples: attempts a task in each harness; runbooks K and executions M of the paper; planner: who plans and judges."""

    tasks: int = Field(gt=0)
    samples: dict[str, int]
    runbooks: int = Field(gt=0)
    executions: int = Field(gt=0)
    rounds: int = Field(ge=0)
    discovery_temperature: float = Field(gt=0)
    execution_temperature: float = Field(gt=0)
    max_sources: int = Field(gt=0)
    per_task: int = Field(gt=0)
    per_family: int = Field(gt=0)
    renamed: int = Field(ge=0)
    planner: Literal["programmatic", "chat"] = "programmatic"
    chat_url: str = ""
    chat_model: str = ""
    lr: float = Field(gt=0)
    lr_cycle2: float = Field(gt=0)
    epochs: float = Field(gt=0)
    batch_tokens: int = Field(gt=0)

    def of_cycle(self, cycle: int) -> Rsr:
        """The settings of one cycle: its own learning rate in `lr`."""
        return self if cycle == 1 else self.model_copy(update={"lr": self.lr_cycle2})


class Rpr(_Strict):
    steps: int = Field(gt=0)
    episodes: int = Field(gt=0)
    gamma_turn: float = Field(ge=0, le=1)
    lambda_turn: float = Field(ge=0, le=1)
    estimator: Literal["tb", "token"] = "tb"
    clip: float = Field(gt=0)
    value_clip: float = Field(gt=0)
    actor_lr: float = Field(gt=0)
    actor_lr_cycle2: float = Field(gt=0)
    critic_lr: float = Field(gt=0)
    epochs: int = Field(gt=0)
    minibatches: int = Field(gt=0)
    lr_warmup_steps: int = Field(ge=0)
    critic_head: Literal["zero", "random"] = "zero"
    warmup_episodes: int = Field(ge=0)
    warmup_epochs: float = Field(gt=0)
    recalibration_episodes: int = Field(ge=0)
    recalibration_epochs: float = Field(gt=0)


class Reward(_Strict):
    rpr1: str
    rpr2: str
    direct: str
    beta: float = Field(ge=0, lt=1)


class Eval(_Strict):
    temperature: float = Field(gt=0)
    attempts: int = Field(gt=0)
    single_attempts: int = Field(gt=0)
    warm_temperature: float = Field(gt=0)
    warm_attempts: int = Field(gt=0)
    top_p: float = Field(gt=0, le=1)
    top_k: int = Field(ge=0)
    bootstrap: int = Field(gt=0)

    @model_validator(mode="after")
    def _apart(self) -> Eval:
        if self.temperature == self.warm_temperature:
            raise ValueError(f"warm_temperature must differ from temperature (both are {self.temperature}): tables tell the two evaluations apart by it")
        return self


class Params(_Strict):
    profile: str
    seeds: list[int] = Field(min_length=1)
    tasks: Tasks
    corpus: Corpus
    base: Base
    lora: Lora = Lora()
    rollout: Rollout
    rsr: Rsr
    rpr: Rpr
    reward: Reward
    eval: Eval


def load_params(path: Path | str = PARAMS) -> Params:
    """Read and check params.yaml. Raises ParamsError naming file, field, what is wrong and what is expected."""
    path = Path(path)
    try:
        return Params.model_validate(yaml.safe_load(path.read_text()))
    except FileNotFoundError as e:
        raise ParamsError(f"{path}: not found; run from the project's root or copy rsi/profiles/laptop.yaml there") from e
    except yaml.YAMLError as e:
        raise ParamsError(f"{path}: not YAML: {e}") from e
    except ValidationError as e:
        problems = "; ".join(f"{'.'.join(map(str, x['loc']))}: {x['msg']} (got {x.get('input')!r})" for x in e.errors()[:5])
        raise ParamsError(f"{path}: {problems}") from e
