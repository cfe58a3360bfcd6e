"""Samplers: token in, token out, one cache across turns; log-probabilities are transformers' own."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rsi.policy.chat import ChatFormat, ChatFormatError
from rsi.policy.hf_sampler import HFSampler
from rsi.policy.model import Policy, load_policy, new_base, save_policy
from rsi.policy.qwen_sampler import QwenSampler
from rsi.policy.sampling import Sampling, pick
from rsi.policy.tokenizer import train_tokenizer

NAMES = ["amber", "cedar", "birch"]
TEXTS = ["1. copy the file amber.txt to cedar 12", "```bash\ncp amber.txt cedar\n```", "exit 0"] * 4


@pytest.fixture(scope="module")
def policy():
    torch.set_num_threads(1)
    tokenizer = train_tokenizer(TEXTS, NAMES, 400)
    model = new_base(tokenizer, hidden=32, layers=2, heads=4, kv_heads=2, head_dim=8, mlp=64, positions=256, seed=3)
    with torch.no_grad():  # sharper than at initialisation, so that equality means something
        for p in model.parameters():
            p.mul_(3.0) if p.ndim > 1 else None
    return Policy(model.eval(), ChatFormat(tokenizer))


ON_POLICY = Sampling()


def play(sampler, sampling=ON_POLICY, rows=7, turns=3, width=11, drop=True):
    """Ragged feeds, a few turns, rows that leave: {row: (tokens, logprobs, mask)}."""
    session = sampler.session([(0, "test", r) for r in range(rows)], 256, sampling)
    streams = {r: ([], [], []) for r in range(rows)}
    live = list(range(rows))
    for turn in range(turns):
        feeds = {r: np.random.default_rng([r, turn]).integers(5, 100, 3 + (r * 5 + turn) % 6).tolist() for r in live}
        out = session.turn(feeds, {r: width for r in live})
        for r in live:
            tokens, logprobs, mask = streams[r]
            tokens += feeds[r] + out[r].ids
            logprobs += [0.0] * len(feeds[r]) + out[r].logprobs
            mask += [False] * len(feeds[r]) + [True] * len(out[r].ids)
        if drop:
            session.drop(live[::3])
            live = [r for r in live if r not in live[::3]]
    return streams


def worst_gap(model, streams, temperature=1.0):
    gap = 0.0
    for tokens, logprobs, mask in streams.values():
        with torch.no_grad():
            expected = (model(torch.tensor([tokens])).logits[0] / temperature).log_softmax(-1)
        gap = max([gap, *(abs(float(expected[j - 1, tokens[j]]) - logprobs[j]) for j in range(len(tokens)) if mask[j])])
    return gap


@pytest.mark.parametrize("make", [lambda p: QwenSampler(p.model, p.format.stop_id), lambda p: HFSampler(p.model, p.format.stop_id)])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_equal_transformers_on_every_sampled_token(policy, make, temperature):
    streams = play(make(policy), Sampling(temperature))
    assert sum(map(sum, (m for _, _, m in streams.values()))) > 60
    assert worst_gap(policy.model, streams, temperature) < 1e-4


def test_both_samplers_say_the_same_tokens(policy):
    fast, general = play(QwenSampler(policy.model, 1)), play(HFSampler(policy.model, 1))
    assert {r: s[0] for r, s in fast.items()} == {r: s[0] for r, s in general.items()}


def test_an_episode_does_not_depend_on_its_neighbours(policy):
    alone, among = play(QwenSampler(policy.model, 1), rows=1, drop=False), play(QwenSampler(policy.model, 1), rows=7, drop=False)
    assert alone[0][0] == among[0][0]


def test_the_cut_distribution_is_what_is_reported():
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]]).repeat(2000, 1)
    u = torch.linspace(0, 0.9999, 2000, dtype=torch.float64)
    ids, logprobs = pick(logits, u, Sampling(1.0, top_k=2))
    expected = torch.tensor([2.0, 1.0]).log_softmax(-1)
    assert set(ids.tolist()) == {0, 1}
    torch.testing.assert_close(logprobs, expected[ids])
    assert abs(float((ids == 0).float().mean()) - float(expected[0].exp())) < 0.01
    assert set(pick(logits, u, Sampling(1.0, top_p=0.6))[0].tolist()) == {0}


def test_a_context_beyond_the_models_positions_is_refused(policy):
    with pytest.raises(ValueError, match="beyond the model's 256 positions"):
        QwenSampler(policy.model, 1).session([(0,)], 512, Sampling())


def test_a_checkpoint_is_a_normal_hugging_face_one(policy, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = save_policy(policy, tmp_path / "actor")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    ids = torch.tensor([tokenizer.encode("1. copy the file amber.txt to cedar 12")])
    with torch.no_grad():
        assert torch.equal(model(ids).logits, policy.model(ids).logits)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True) == "<|user|>hi<|end|><|assistant|>"
    assert load_policy(path).format.stop_id == policy.format.stop_id


def test_names_are_one_token_wherever_they_stand(policy):
    tokenizer = policy.tokenizer
    amber = tokenizer.convert_tokens_to_ids("amber")
    for text in ("amber", " amber", "x/amber.txt", "'amber'"):
        assert tokenizer.encode(text, add_special_tokens=False).count(amber) == 1
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def _with_template(policy, template):
    import copy

    tokenizer = copy.deepcopy(policy.tokenizer)
    tokenizer.chat_template = template
    return tokenizer


def test_a_template_that_rewrites_history_is_refused(policy):
    rewriting = ("{%- for m in messages -%}<|{{ m['role'] }}|>{% if m['role'] == 'assistant' and not loop.last %}(old)"
                 "{% else %}{{ m['content'] }}{% endif %}<|end|>{%- endfor -%}{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}")
    with pytest.raises(ChatFormatError, match="rewrites earlier turns"):
        ChatFormat(_with_template(policy, rewriting))
    with pytest.raises(ChatFormatError, match="no chat_template"):
        ChatFormat(_with_template(policy, None))


def test_case_14_a_template_without_a_stop_token_is_refused(policy):
    open_ended = ("{%- for m in messages -%}{{ m['role'] + ': ' + m['content'] + '\n' }}{%- endfor -%}"
                  "{%- if add_generation_prompt -%}{{ 'assistant: ' }}{%- endif -%}")
    with pytest.raises(ChatFormatError, match=r"an assistant turn ends in '\\n', which is no special stop token"):
        ChatFormat(_with_template(policy, open_ended))


def test_the_general_sampler_serves_another_architecture(policy):
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(policy.tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                         num_key_value_heads=2, intermediate_size=64, max_position_embeddings=256)).eval()
    assert worst_gap(model, play(Policy(model, policy.format).sampler())) < 1e-4
