# SPDX-License-Identifier: MIT
"""Language models that other programs trained, from GGUF files and folders, and low-rank adapters of them."""
from __future__ import annotations

import codecs
import json
import math
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Union

from ._library import c_string, check, ffi, lib, make, text
from ._names import named_options
from .data import Dataset
from .options import PathLike
from .strategy import Strategy


@dataclass(frozen=True)
class LanguageEvaluation:
    """How well a language model predicts a text: the mean loss of a token."""

    tokens: int
    loss: float
    bits_per_byte: float

    @property
    def perplexity(self) -> float:
        """e to the loss."""
        return math.exp(self.loss)


def _data(given: Union[str, bytes]) -> bytes:
    return given.encode() if isinstance(given, str) else bytes(given)


class LanguageModel:
    """A language model of a GGUF file or a folder, with at most one adapter. Its weights are frozen: a Trainer trains the adapter, on the
    windows of a text."""

    @named_options()
    def __init__(self, strategy: Strategy, path: PathLike, *, float_weights: bool = False,
                 date: Optional[str] = None) -> None:
        """float_weights: quantised weights become f32 on the device. date: what conversations of Llama 3.1 to 3.3 say is
        today's date; None: what the template of the model has."""
        self.strategy = strategy
        told = c_string(date)
        params = ffi.new("struct copse_language_params *", {
            "date": told, "weights": lib.COPSE_WEIGHTS_F32 if float_weights else lib.COPSE_WEIGHTS_FILE})
        self._pointer = make("language", lib.copse_language_open, strategy._pointer, c_string(path), params)
        info = ffi.new("struct copse_language_info *")
        check(lib.copse_language_describe(self._pointer, info))
        self.architecture, self.chat_form = text(info.architecture), text(info.chat)
        self.parameters, self.vocabulary, self.context = info.parameters, info.vocabulary, info.context

    @named_options()
    def adapt(self, rank: int, *, alpha: float = 0.0, dropout: float = 0.0, rank_stabilised: bool = False, dora: bool = False,
              targets: Union[str, Sequence[str], None] = None, seed: int = 0) -> None:
        """Give the model an adapter (LoRA). alpha: the adapter is scaled by alpha / rank, or alpha / sqrt(rank) if
        rank_stabilised; 0: 2 rank. dora: the length of each row of an adapted weight is trained, too. targets: patterns of the adapted weights, such as "q_proj"; None: all that can be adapted."""
        listed = c_string(targets if targets is None or isinstance(targets, str) else ",".join(targets))
        check(lib.copse_language_adapt(self._pointer, ffi.new("struct copse_adapter_params *", {
            "rank": rank, "alpha": alpha, "dropout": dropout, "is_rank_stabilised": rank_stabilised, "is_dora": dora, "targets": listed,
            "seed": seed})))

    def save_adapter(self, path: PathLike) -> None:
        """Write NAME.safetensors, NAME.gguf for llama.cpp, or a folder as PEFT reads it."""
        check(lib.copse_language_save_adapter(self._pointer, c_string(path)))

    def load_adapter(self, path: PathLike) -> None:
        """Give the model the adapter of a file, or of a folder that PEFT wrote."""
        check(lib.copse_language_load_adapter(self._pointer, c_string(path)))

    def load_adapters(self, factors: Mapping[PathLike, float]) -> None:
        """Give the model the sum of several adapters as one: {path: factor}."""
        paths = [c_string(path) for path in factors]
        check(lib.copse_language_load_adapters(self._pointer, ffi.new("char *[]", paths), ffi.new("float[]", list(factors.values())),
                                               len(paths)))

    def save_merged(self, path: PathLike, dtype: Optional[str] = None) -> None:
        """Write the model with its adapter as a model of its own: a GGUF file, or a new folder where the model is of a folder.
        dtype: of the merged weights, "float32", "float16" or "bfloat16"; None: as in the file of the model, float32 where they are
        quantised there."""
        types = {"float32": lib.COPSE_F32, "float16": lib.COPSE_F16, "bfloat16": lib.COPSE_BF16}
        if dtype is not None and dtype not in types:
            raise ValueError(f"dtype {dtype!r}: one of {', '.join(types)}")
        params = {"has_type": dtype is not None, "type": types[dtype] if dtype is not None else 0}
        check(lib.copse_language_save_merged(self._pointer, c_string(path), ffi.new("struct copse_merge_params *", params), ffi.NULL))

    def windows(self, given: Union[str, bytes], window: int = 0) -> Dataset:
        """A data set for Trainer.fit: windows of so many tokens [512, or the context if that is less]."""
        data = _data(given)
        return Dataset({}, _pointer=make("dataset", lib.copse_language_windows, self._pointer, ffi.from_buffer("char[]", data),
                                         len(data), window))

    def conversations(self, lines: Union[str, bytes, Sequence[dict]], window: int = 0) -> Dataset:
        """A data set for Trainer.fit of which only the answers are predicted: JSON lines, or dictionaries, with "prompt" and
        "answer", or with "messages". window: 0 is the longest conversation, at most 512 tokens."""
        data = _data(lines) if isinstance(lines, (str, bytes)) else "\n".join(map(json.dumps, lines)).encode()
        return Dataset({}, _pointer=make("dataset", lib.copse_language_conversations, self._pointer,
                                         ffi.from_buffer("char[]", data), len(data), window, ffi.NULL))

    def evaluate(self, given: Union[str, bytes, Dataset], window: int = 0) -> LanguageEvaluation:
        """How well the model predicts a text in windows of so many tokens [512], or a data set of windows."""
        e = ffi.new("struct copse_language_evaluation *")
        if isinstance(given, Dataset):
            check(lib.copse_language_evaluate_windows(self._pointer, given._pointer, e))
        else:
            data = _data(given)
            check(lib.copse_language_evaluate(self._pointer, ffi.from_buffer("char[]", data), len(data), window, e))
        return LanguageEvaluation(tokens=e.tokens, loss=e.loss, bits_per_byte=e.bits_per_byte)

    def tokens(self, given: Union[str, bytes]) -> list[int]:
        """The tokens of a text. Special tokens are found where the text has their names."""
        data, count = _data(given), ffi.new("size_t *")
        size = 3 * len(data) + 2  # a text may be longer in the form that the tokenizer gives it
        room = ffi.new("int32_t[]", size)
        check(lib.copse_language_encode(self._pointer, ffi.from_buffer("char[]", data), len(data), room, size, count))
        return list(room[0:count[0]])

    def chat(self, question: str, system: Optional[str] = None) -> str:
        """A question in the form of the conversations that the model was trained with, up to where the answer begins."""
        needed, parts = ffi.new("size_t *"), (c_string(system), c_string(question))
        check(lib.copse_language_chat(self._pointer, *parts, ffi.NULL, 0, needed))
        room = ffi.new("char[]", needed[0])
        check(lib.copse_language_chat(self._pointer, *parts, room, needed[0], needed))
        return text(room)

    @named_options()
    def generate(self, prompt: Union[str, bytes] = "", length: int = 200, *, temperature: float = 1.0, top_k: int = 0,
                 top_p: float = 1.0, seed: int = 1) -> Union[str, bytes]:
        """Continue a text by `length` tokens, or until the model ends it, without the prompt: bytes after bytes, otherwise a
        string, in which U+FFFD is in the place of bytes that are no character. temperature: 0 takes the most likely token
        always. top_k: 0 keeps all tokens. The same seed gives the same text."""
        start, written = _data(prompt), bytearray()

        def take(_user: Any, _token: int, token_bytes: Any, size: int) -> int:
            written.extend(ffi.buffer(token_bytes, size))
            return lib.COPSE_OK

        params = ffi.new("struct copse_generate_params *", {
            "length": length, "seed": seed, "temperature": temperature, "top_p": top_p, "top_k": top_k})
        callback = ffi.callback("copse_token_fn", take, error=lib.COPSE_ERR_INTERNAL)
        check(lib.copse_language_generate(self._pointer, ffi.from_buffer("char[]", start), len(start), params, callback, ffi.NULL))
        return codecs.getincrementaldecoder("utf-8")("replace").decode(written) if isinstance(prompt, str) else bytes(written)
