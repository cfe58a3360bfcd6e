"""HOW the policy acts: harnesses, the rollout engine, episodes and their store."""

from rsi.harness.protocol import Terminus
from rsi.harness.reflect import Reflect
from rsi.harness.statem import StateM

HARNESSES = {h.name: h for h in (Terminus, Reflect, StateM)}
