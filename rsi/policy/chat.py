"""Chat formats: how messages become token ids, append-only, for our tokenizer and for any Hugging Face chat template.

An episode's stream is built once and only grows: prompt ids, sampled ids (stop token included), then the ids of
"observation + next generation prompt". Nothing sampled is ever encoded again.
"""

from __future__ import annotations

from functools import lru_cache

_PROBE = "\x00"


class ChatFormatError(ValueError):
    """The tokenizer's chat template cannot be used turn by turn; says why and what to do."""


class ChatFormat:
    """Renders prompts and observations with `tokenizer`'s own chat template.

    Raises ChatFormatError when there is no template, when it rewrites history (then the stream of earlier turns would
    not be what the model saw), or when an assistant message does not end in one stop token.
    """

    def __init__(self, tokenizer):
        if not getattr(tokenizer, "chat_template", None):
            raise ChatFormatError(f"{tokenizer.name_or_path}: the tokenizer has no chat_template; add chat_template.jinja")
        self.tokenizer = tokenizer
        user, reply = {"role": "user", "content": "q"}, {"role": "assistant", "content": _PROBE}
        opened = self._text([user], generate=True)
        answered = self._text([user, reply])
        if not answered.startswith(opened + _PROBE):
            raise ChatFormatError(f"{tokenizer.name_or_path}: the chat template changes the text before an assistant turn once it is answered")
        tail = answered[len(opened) + 1 :]
        again = self._text([user, reply, {"role": "user", "content": _PROBE}], generate=True)
        if not again.startswith(answered):
            raise ChatFormatError(f"{tokenizer.name_or_path}: the chat template rewrites earlier turns (it is not append-only)")
        head, _, foot = again[len(answered) :].partition(_PROBE)
        stop = next((t for t in self._specials() if tail.startswith(t)), None)
        if stop is None:
            raise ChatFormatError(f"{tokenizer.name_or_path}: an assistant turn ends in {tail!r}, which is no special stop token")
        self.stop_id: int = tokenizer.convert_tokens_to_ids(stop)
        self._before, self._after = tail[len(stop) :] + head, foot

    def _specials(self) -> list[str]:
        added = [str(t) for t in self.tokenizer.added_tokens_decoder.values() if t.special]
        return sorted({*added, *self.tokenizer.all_special_tokens}, key=len, reverse=True)

    def _text(self, messages: list[dict], generate: bool = False) -> str:
        return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generate)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    @lru_cache(maxsize=4096)  # noqa: B019 - a format lives as long as its process
    def _cached(self, text: str) -> tuple[int, ...]:
        return tuple(self.encode(text))

    def prompt(self, messages: list[dict]) -> list[int]:
        """Ids of the first messages and the generation prompt."""
        return list(self._cached(self._text(messages, generate=True)))

    def observation(self, text: str) -> list[int]:
        """Ids between a sampled stop token and the next sampled token: the user message `text` and the generation prompt."""
        return list(self._cached(self._before + text + self._after))

    def action(self, text: str) -> list[int]:
        """Ids of an assistant turn that somebody else wrote (scripts, replays), stop token included."""
        return [*self._cached(text), self.stop_id]

    def decode(self, ids: list[int]) -> str:
        """Text of a sampled turn without its stop token."""
        if ids and ids[-1] == self.stop_id:
            ids = ids[:-1]
        return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
