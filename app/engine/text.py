"""Between text and tokens: the model's chat template, tokenising, whole characters out of token pieces."""

import codecs
import ctypes
from collections.abc import Sequence

from llama_cpp import llama_cpp as llama
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

from app.engine.protocol import Message
from app.errors import AppError, ErrorCode

# For models that carry no template; `Prompter.fallback` tells the user.
_CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_PIECE_BYTES = 256


def piece(vocab: int, token: int, *, special: bool) -> bytes:
    """The bytes of one token; special tokens are empty unless `special`."""
    size = _PIECE_BYTES
    while True:
        buffer = ctypes.create_string_buffer(size)
        written = llama.llama_token_to_piece(vocab, token, buffer, size, 0, special)
        if written >= 0:
            return buffer.raw[:written]
        size = -written


class Prompter:
    """Renders conversations to tokens with the template the model carries.

    Attributes:
        fallback: Why another template than the model's own is used, or empty.

    Raises:
        AppError: model_unsupported, the template cannot be compiled.
    """

    def __init__(self, model: int, vocab: int) -> None:
        self._vocab = vocab
        raw = llama.llama_model_chat_template(model, None)
        self.fallback = "" if raw else "The model carries no chat template; ChatML is used."
        template = raw.decode(errors="replace") if raw else _CHATML
        try:
            self._format = Jinja2ChatFormatter(
                template=template,
                eos_token=self._text(llama.llama_vocab_eos(vocab)),
                bos_token=self._text(llama.llama_vocab_bos(vocab)),
            )
        except Exception as error:  # jinja2 raises many kinds for a template that came with a file
            raise AppError(
                ErrorCode.MODEL_UNSUPPORTED, "The model's chat template cannot be used.", str(error)
            ) from error

    def _text(self, token: int) -> str:
        return piece(self._vocab, token, special=True).decode(errors="replace") if token >= 0 else ""

    def tokens(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the whole conversation with the opening of the answer.

        Raises:
            AppError: model_unsupported, the template refuses this conversation; bad_usage, it is empty.
        """
        try:
            prompt = self._format(messages=[{"role": m.role, "content": m.content} for m in messages]).prompt
        except Exception as error:
            raise AppError(
                ErrorCode.MODEL_UNSUPPORTED,
                "The model's chat template refuses this conversation.",
                str(error),
            ) from error
        tokens = tokenize(self._vocab, prompt)
        first = llama.llama_vocab_bos(self._vocab)
        if llama.llama_vocab_get_add_bos(self._vocab) and first >= 0 and tokens[:1] != [first]:
            tokens.insert(0, first)  # most templates write it themselves, some leave it to the tokeniser
        if not tokens:
            raise AppError(ErrorCode.BAD_USAGE, "The conversation is empty.")
        return tokens


def tokenize(vocab: int, text: str) -> list[int]:
    """Token ids of `text`; names of special tokens in it count as those tokens."""
    data = text.encode()
    size = len(data) + 8
    while True:
        tokens = (llama.llama_token * size)()
        count = llama.llama_tokenize(vocab, data, len(data), tokens, size, False, True)
        if count >= 0:
            return list(tokens[:count])
        size = -count


class CharacterStream:
    """Joins token pieces to text; a character split over tokens comes out when it is whole."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes) -> str:
        """The characters completed by `data`."""
        return self._decoder.decode(data)

    def end(self) -> str:
        """What is left at the end: a replacement character for bytes that never became one."""
        return self._decoder.decode(b"", final=True)
