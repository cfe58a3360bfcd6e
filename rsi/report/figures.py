"""Figures: one style, axes with units, and files that are byte-identical for equal numbers."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rsi.paths import STAGES
from rsi.persist import whole
from rsi.report import paper
from rsi.report.tables import FOUR, SHOWN, SUITES, measured, standins

STYLE = Path(__file__).with_name("style.mplstyle")
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8a8a8a"
CURVES = {
    "reward": "mean reward",
    "strict": "strict success (share)",
    "explained_variance": "explained variance (global)",
    "kl": "KL to sampler (nats)",
    "clip_fraction": "clipped tokens (share)",
    "entropy": "entropy (nats)",
    "turns": "turns / episode",
    "action_tokens": "action tokens / episode",
    "invalid": "invalid episodes",
    "logprob_gap": "trainer − sampler log-prob, max",
}


def styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw under the project's style, whatever the caller's settings are."""

    @functools.wraps(draw)
    def under_style(*args, **kwargs) -> Figure:
        with matplotlib.rc_context():
            matplotlib.style.use(STYLE)
            fig = draw(*args, **kwargs)
            fig.draw_without_rendering()
            return fig

    return under_style


def save(fig: Figure, stem: Path) -> list[Path]:
    """Write `stem`.png and .svg without dates or versions in them."""
    files = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with matplotlib.rc_context(), whole(files[0]) as png, whole(files[1]) as svg:
        matplotlib.style.use(STYLE)
        fig.savefig(png, format="png", metadata={"Software": None})
        fig.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return files


def show(fig: Figure):
    """The figure as a notebook output (PNG, the same bytes every time)."""
    import io

    from IPython.display import Image

    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", metadata={"Software": None}, dpi=110)
    return Image(data=buffer.getvalue())


def _interval(ax, x, row: dict, *, color: str, marker: str, scale: float = 100, keys=("strict", "low", "high"), label: str | None = None) -> None:
    """A mean with its interval, nothing where no attempt was valid; `label` is in the legend once."""
    if not all(measured(row[k]) for k in keys):
        return
    mean, low, high = (scale * row[k] for k in keys)
    label = None if label in ax.get_legend_handles_labels()[1] else label
    ax.errorbar(
        [x], [mean], yerr=[[max(0, mean - low)], [max(0, high - mean)]], fmt=marker, color=color, capsize=3, markersize=6, linestyle="none", label=label
    )


def _seed_dots(ax, x: float, rows: Sequence[dict], scale: float = 100) -> None:
    for r in rows:
        if measured(r["strict"]):
            ax.plot([x], [scale * r["strict"]], marker=".", color=GREY, markersize=4, linestyle="none", zorder=1)


def _pick(rows: Sequence[dict], temperature: float, suite: str, seeds: bool = False) -> dict:
    out: dict = {}
    for r in rows:
        if r["temperature"] == temperature and r["suite"] == suite and (r["seed"] is not None) == seeds:
            out.setdefault(r["stage"], []).append(r)
    return out if seeds else {k: v[0] for k, v in out.items()}


def _legend(ax, **where) -> None:
    """A legend, unless nothing was drawn that it could name."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(**where)


@styled
def main_figure(rows: Sequence[dict], shown: Mapping[str, str] = SUITES) -> Figure:
    """The four-suite mean by stage at both temperatures, and the paper's two values in a panel of their own. shown: the suites' labels."""
    temperatures = sorted({r["temperature"] for r in rows})
    fig = Figure(figsize=(9.2, 3.9))
    left, right = fig.subplots(1, 2, width_ratios=[3.4, 1])
    stages = [s for s in STAGES if s in {r["stage"] for r in rows}]
    for k, t in enumerate(temperatures[:2]):
        picked, seeds = _pick(rows, t, "four"), _pick(rows, t, "four", seeds=True)
        color, marker, shift = (BLUE, "o", -0.1) if k == 0 else (ORANGE, "s", 0.1)
        for x, stage in enumerate(stages):
            if stage in picked:
                _seed_dots(left, x + shift, seeds.get(stage, []))
                _interval(left, x + shift, picked[stage], color=color, marker=marker, label=f"temperature {t:g}")
    left.set_xticks(range(len(stages)), [SHOWN[s] for s in stages])
    left.set_ylabel(f"strict success (%), mean of four{' stand-in' if standins(shown) >= set(FOUR) else ''} suites")
    left.set_title("This run: bars are 95 % intervals over tasks, grey dots single seeds")
    left.set_ylim(0, max(10, left.get_ylim()[1]))
    _legend(left, loc="lower right" if len(stages) > 1 else "best")
    values = [paper.STRICT["four", "base"], paper.STRICT["four", "rpr2"]]
    right.bar(range(2), values, color="#d9d9d9", edgecolor="#555555", hatch="//", width=0.6)
    for x, v in enumerate(values):
        right.text(x, v + 1, f"{v:.2f}", ha="center")
    right.set_xticks(range(2), ["Base", "RPR-2"])
    right.set_ylim(0, 100)
    right.set_ylabel("strict success (%), real suites, another model")
    right.set_title("Paper [P]")
    return fig


@styled
def suites_figure(rows: Sequence[dict], temperature: float, shown: Mapping[str, str] = SUITES) -> Figure:
    """Every suite by stage at one temperature; for LHTB the process reward is drawn too. shown: the suites' labels."""
    suites = [s for s in (*FOUR, "lhtb", "swr100") if _pick(rows, temperature, s)]
    fig = Figure(figsize=(9.2, 4.8))
    axes = fig.subplots(2, 3, sharex=True, squeeze=False).ravel()
    for ax in axes[len(suites) :]:
        ax.set_visible(False)
    for ax, suite in zip(axes, suites, strict=False):
        picked = _pick(rows, temperature, suite)
        for x, stage in enumerate(s for s in STAGES if s in picked):
            _interval(ax, x, picked[stage], color=BLUE, marker="o", label="strict" if suite == "lhtb" else None)
            if suite == "lhtb":
                _interval(
                    ax,
                    x + 0.2,
                    picked[stage],
                    color=ORANGE,
                    marker="s",
                    keys=("progress", "progress_low", "progress_high"),
                    label="process",
                )
        ax.set_title(f"{shown[suite]} (n = {next(iter(picked.values()))['n']})")
        ax.set_xticks(range(len(picked)), [SHOWN[s] for s in STAGES if s in picked], rotation=40, ha="right")
        ax.set_ylim(0, max(10, ax.get_ylim()[1]))
        ax.set_ylabel("%" if suite == "lhtb" else "strict success (%)")
        if suite == "lhtb":
            _legend(ax, loc="best", fontsize=8)
    return fig


@styled
def loss_figure(curve: Sequence[dict], title: str) -> Figure:
    """A training loss curve with its learning rate."""
    fig = Figure(figsize=(6.4, 3))
    ax = fig.subplots()
    ax.plot([r["step"] for r in curve], [r["loss"] for r in curve], color=BLUE, label="loss")
    ax.set(xlabel="optimizer step", ylabel="loss (nats / token)", title=title, ylim=(0, None))
    twin = ax.twinx()
    twin.plot([r["step"] for r in curve], [r["lr"] for r in curve], color=GREY, linestyle=":", linewidth=1.2)
    twin.set_ylabel("learning rate (dotted)")
    twin.grid(False)
    return fig


def read_live(folder: Path) -> dict[str, list[float]]:
    """DVCLive's rows of one stage: metric name -> values by step."""
    curves = {}
    for file in sorted(Path(folder).glob("plots/metrics/*.tsv")):
        with file.open() as handle:
            curves[file.stem] = [(int(r["step"]), float(r[file.stem])) for r in csv.DictReader(handle, delimiter="\t")]
    return curves


@styled
def curves_figure(runs: dict[str, Path]) -> Figure:
    """The per-step curves of one or more RPR runs ({label: live folder})."""
    logs = {label: read_live(folder) for label, folder in runs.items()}
    names = [n for n in CURVES if any(n in log for log in logs.values())]
    fig = Figure(figsize=(10, 7.2))
    axes = fig.subplots((len(names) + 2) // 3, 3, squeeze=False).ravel()
    for ax in axes[len(names) :]:
        ax.set_visible(False)
    for ax, name in zip(axes, names, strict=False):
        for label, log in logs.items():
            if name in log:
                ax.plot(*zip(*log[name], strict=True), label=label, marker="." if len(log[name]) < 3 else None)
        ax.set(title=CURVES[name], xlabel="PPO step")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(logs) > 1:
        axes[0].legend(fontsize=8)
    return fig


@styled
def mass_figure(found: dict) -> Figure:
    """Reward mass of failed runs, ours by reward, beside the paper's two values."""
    ours = {k: v for k, v in found["all"]["failed_mass"].items() if v is not None}
    fig = Figure(figsize=(6, 3))
    ax = fig.subplots()
    ax.bar(range(len(ours)), [100 * v for v in ours.values()], color=BLUE, width=0.6, label="this run")
    for x, k in enumerate(ours):
        if k in paper.FAILED_MASS:
            ax.plot([x - 0.35, x + 0.35], [100 * paper.FAILED_MASS[k]] * 2, color="black", linestyle="--", label="paper [P]" if k == "raw" else None)
    ax.set_xticks(range(len(ours)), [k.upper() if k != "raw" else "raw ratio" for k in ours])
    ax.set(ylabel="% of all reward held by failed runs", ylim=(0, 100))
    ax.legend()
    return fig


@styled
def strip_figure(values: Sequence[float], advantages: Sequence[float], turns: Sequence[int], title: str) -> Figure:
    """Value and advantage at every action token of an episode; thin lines are turn boundaries."""
    fig = Figure(figsize=(9.2, 3.4))
    top, bottom = fig.subplots(2, 1, sharex=True)
    x = range(len(values))
    top.step(x, values, where="mid", color=BLUE)
    top.set(ylabel="value V (reward)", title=title)
    bottom.bar(x, advantages, width=1.0, color=[BLUE if a >= 0 else ORANGE for a in advantages])
    bottom.axhline(0, color="black", linewidth=0.6)
    bottom.set(ylabel="advantage A (reward)", xlabel="action token")
    for k in range(1, len(turns)):
        if turns[k] != turns[k - 1]:
            for ax in (top, bottom):
                ax.axvline(k - 0.5, color="#bbbbbb", linewidth=0.7, zorder=0)
    return fig
