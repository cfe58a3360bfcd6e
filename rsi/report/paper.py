"""The paper's reference values, each with its mark: shown beside our numbers and clearly apart from them.

P: stated by the Terminal-RSI paper (arXiv 2610.22192) or its page. T1: by T1 (arXiv 2609.11042). RSR: by "Scaling
Trajectories for Complex Tasks through Recursive Self-Rewrite" (arXiv 2610.02826). I: inferred here.
"""

from __future__ import annotations

from dataclasses import dataclass

MARKS = {
    "P": "Terminal-RSI, arXiv 2610.22192",
    "T1": "T1, arXiv 2609.11042",
    "RSR": "Recursive Self-Rewrite, arXiv 2610.02826",
    "I": "inferred in this project",
}
MODEL = "Qwen3.8-27B on the real suites"


@dataclass(frozen=True)
class Reference:
    """One value of the paper: claim number, what it says, the value in its unit, who states it."""

    claim: str
    what: str
    value: str
    mark: str


CLAIMS = (
    Reference("C1", "four-suite mean strict success, Base → RPR-2", "20.68 → 50.58 %", "P"),
    Reference("C2", "Terminal-Bench 2.1 / Hard / 3.0 / 4.0 of RPR-2", "86.52 / 79.00 / 16.95 / 19.84 %", "P"),
    Reference("C3", "RPR-1 − direct PPO from Base, TB 2.1, PPO step 20", "+29.2 points", "P"),
    Reference("C4", "reward mass held by failed runs, dense reward", "50.09 %", "P"),
    Reference("C5", "the same after rescoring with SPR", "28.72 %", "P"),
    Reference("C6", "LHTB process reward, Base → RPR-2", "0.21 → 0.37", "P"),
    Reference("C7", "LHTB strict completions, Base → RPR-2", "0/46 → 5/46", "P"),
    Reference("C8", "SWR100 success, Base → RPR-2", "3.00 → 6.00 %", "P"),
    Reference("C9", "union of three harnesses against the best single one, tasks solved", "759 against 565 of 2,929", "RSR"),
    Reference("C10", "TB 2: base / direct SFT / RSR", "51.7 / 43.8 / 70.1 %", "RSR"),
    Reference("C11", "explained variance at first, warm critic against cold", "0.71–0.86 against −33.6", "T1"),
)

# Strict success in percent by (suite, stage), as far as the paper states it; the suites are the real ones, not our stand-ins.
STRICT = {
    ("four", "base"): 20.68,
    ("four", "rpr2"): 50.58,
    ("tb21", "rpr2"): 86.52,
    ("hard", "rpr2"): 79.00,
    ("tb3", "rpr2"): 16.95,
    ("tb4", "rpr2"): 19.84,
    ("lhtb", "base"): 0.0,
    ("lhtb", "rpr2"): 100 * 5 / 46,
    ("swr100", "base"): 3.00,
    ("swr100", "rpr2"): 6.00,
}
PROCESS = {"base": 0.21, "rpr2": 0.37}
FAILED_MASS = {"raw": 0.5009, "spr": 0.2872}
