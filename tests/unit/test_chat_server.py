"""The chat planner and judge against a real OpenAI-compatible server: `transformers serve` with a small model made here."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rsi.params import load_params
from rsi.policy.model import Policy, save_policy
from rsi.rsr import make_planner
from rsi.rsr.chat import complete
from rsi.rsr.runbook import write_runbook

START_S = 180


@pytest.fixture(scope="module")
def server(fmt, tmp_path_factory):
    """(URL, model path) of a running server; skipped with the reason where the serving extra is not installed."""
    for name in ("fastapi", "uvicorn", "openai"):
        pytest.importorskip(name, reason=f"{name} is needed by `transformers serve`: pip install -e '.[dev]'")
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(fmt.tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                                         intermediate_size=64, max_position_embeddings=4096, eos_token_id=fmt.stop_id, pad_token_id=fmt.tokenizer.pad_token_id))
    root = tmp_path_factory.mktemp("serve")
    path = save_policy(Policy(model, fmt), root / "model")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = (root / "log").open("wb")
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(path), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={"PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1", "HOME": str(root)})
    url, limit = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    try:
        while True:
            try:
                if httpx.get(f"{url}/health", timeout=2).status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            assert process.poll() is None and time.monotonic() < limit, (root / "log").read_text()[-2000:]
            time.sleep(0.5)
        yield f"{url}/v1", str(path)
    finally:
        process.terminate()
        process.wait(30)


def test_a_runbook_is_planned_and_judged_over_http(server, corpus_of_tasks, fmt, sandboxes, written, claim):
    from rsi.harness.engine import Job, RolloutConfig, run_batch
    from rsi.harness.scripted import ScriptedSampler

    url, model = server
    assert isinstance(complete(url, model, "say anything", "now", max_tokens=8), str)
    task = corpus_of_tasks[0]
    sampler = ScriptedSampler([[*written(task), claim]], fmt)
    (source,) = run_batch([Job(task, "reflect")], sampler, fmt, sandboxes, RolloutConfig(2048, turn_tokens=160), stage="t", seed=0)
    params = load_params().rsr.model_copy(update={"planner": "chat", "chat_url": url, "chat_model": model})
    planner, judge = make_planner(params)
    runbook, reasons = write_runbook(task, source, 0, planner, judge, rounds=1)
    # an untrained model writes no runbook: the deterministic review refuses it, the critique goes back, the bound holds
    assert runbook is None and reasons == ["format", "format"]
    review = judge.judge(task, "end: done.\n1: mkdir -p")
    assert not review.accepted and review.reason == "judgement" and review.critique
