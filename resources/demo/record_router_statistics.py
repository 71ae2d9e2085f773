"""Record what the demo's router sees: mean and whitening directions of `ffn_norm-<layer>`, per layer.

Runs the dense source model over the texts below and writes `router_statistics.npz` beside this file.
Needs the engine, unlike the building of the demo, which reads only the result. Run it from the
project's folder, on Linux, as `python resources/demo/record_router_statistics.py`.
"""

import argparse
import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import llama_cpp.llama_cpp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from app.library.demo_source import find_source, verify_source

DIRECTIONS = 48
THREADS = 2
BATCH_TOKENS = 512
# The first position of a text gets activations unlike any other (attention collects there): it would
# take the largest directions for itself.
SKIPPED_POSITIONS = 1

# Written for this purpose: many subjects, registers and languages, and the chat format the demo is used in.
TEXTS = (
    "<|im_start|>system\nYou are a helpful AI assistant.<|im_end|>\n<|im_start|>user\nWhat should I cook "
    "tonight? I have rice, two eggs and a leek.<|im_end|>\n<|im_start|>assistant\nYou could make fried rice. "
    "Slice the leek thinly and fry it in a little oil until it is soft, then add the rice.<|im_end|>\n",
    "<|im_start|>user\nExplain why the sky is blue to a child.<|im_end|>\n<|im_start|>assistant\nSunlight "
    "looks white, but it is made of many colours. The air scatters blue light more than red light, so blue "
    "reaches your eyes from every side.<|im_end|>\n<|im_start|>user\nAnd at sunset?<|im_end|>\n",
    "The harbour was quiet that morning. Gulls walked along the wet planks, and somewhere behind the "
    "warehouse a man was whistling the same four notes again and again, as if he had lost the fifth.",
    "def moving_average(values, width):\n    total = sum(values[:width])\n    result = [total / width]\n"
    "    for i in range(width, len(values)):\n        total += values[i] - values[i - width]\n"
    "        result.append(total / width)\n    return result\n",
    "#include <vector>\n\nint count_even(const std::vector<int> & xs) {\n    int n = 0;\n"
    "    for (int x : xs) {\n        if (x % 2 == 0) { n++; }\n    }\n    return n;\n}\n",
    "SELECT city, COUNT(*) AS orders, AVG(price) FROM sales WHERE year = 2021 GROUP BY city "
    "HAVING COUNT(*) > 10 ORDER BY orders DESC;",
    "If a train covers 180 kilometres in 2.5 hours, its average speed is 180 / 2.5 = 72 kilometres per hour. "
    "Let x be the unknown side; then x^2 + 9 = 25, so x = 4.",
    "Photosynthesis takes place in the chloroplasts. Chlorophyll absorbs light, water is split, oxygen is "
    "released, and carbon dioxide is bound into sugars that feed the plant.",
    "The treaty was signed in the autumn after three years of war. Neither side had won, both treasuries were "
    "empty, and the border stayed where it had been, along the river.",
    "Le boulanger ouvre sa boutique à six heures. Les clients arrivent peu à peu, achètent du pain frais et "
    "parlent de la pluie qui ne veut pas s'arrêter.",
    "Der Zug nach Hamburg fährt heute von Gleis sieben ab. Bitte beachten Sie, dass der Speisewagen "
    "geschlossen ist und die Reservierungen nicht angezeigt werden.",
    "Mi abuela guardaba las cartas en una caja de madera. Cada domingo leía una en voz alta, y nosotros "
    "fingíamos no conocer el final de la historia.",
    "今天天气很好，我们一起去公园散步吧。路上可以买一点水果和面包。",
    "Вчера вечером мы долго сидели на кухне, пили чай и говорили о старых друзьях.",
    "La biblioteca chiude alle nove. O mercado fica perto da estação. Hunden sover under bordet.",
    "Dear Ms Carter, thank you for your message of 4 March. We have checked your invoice and found that the "
    "discount of 12% was missing. A corrected copy is attached. Kind regards, the billing office.",
    "1. Switch the device off. 2. Remove the two screws at the back. 3. Lift the cover carefully; the cable "
    "is short. 4. Replace the battery and close the cover.",
    "- milk\n- a dozen eggs\n- flour (500 g)\n- lemons\n- candles for the cake\n\n**Do not forget:** the "
    "table is booked for 19:30 under the name *Okafor*.",
    '{"name": "sensor-7", "values": [21.5, 21.7, 22.0], "unit": "C", "ok": true, "next": null}',
    '"You knew?" she asked. "Since Tuesday," he said. "And you let me go there alone?" He looked at the '
    "floor and did not answer.",
    "Interest rates rose again in June, and house sales fell for the fourth month. Analysts expect the bank to "
    "wait until wages stop growing faster than prices.",
    "The striker passed to the left, took the ball back at the edge of the area and shot low into the corner: "
    "two to one, with four minutes left to play.",
    "Take one tablet twice a day with food. Tell your doctor if you have fever, a rash or trouble breathing. "
    "Do not drive if you feel dizzy.",
    "Stars are born in cold clouds of gas. Gravity pulls the gas together until the core is hot enough for "
    "hydrogen to fuse into helium, and the new star begins to shine.",
    "Snow falls on the hill,\nthe lamp at the gate burns low,\na fox leaves its name\nin small blue steps on "
    "the path\nand the night reads it, slowly.",
    "The court finds that the tenant gave notice in writing, that the notice was received on 2 May, and that "
    "the landlord is therefore bound to return the deposit within thirty days.",
    "Why did the robot go on holiday? It needed to recharge! Why was the maths book sad? It had too many "
    "problems. What do you call a bear with no teeth? A gummy bear.",
    "<|im_start|>user\nTranslate into French: Where is the station?<|im_end|>\n<|im_start|>assistant\nOù est "
    "la gare ?<|im_end|>\n<|im_start|>user\nWrite a Python one-liner that reverses a string.<|im_end|>\n"
    "<|im_start|>assistant\n```python\nreversed_text = text[::-1]\n```\n<|im_end|>\n",
)


class TensorRecorder:
    """Collects the rows of every evaluated tensor whose name starts with `prefix`, per layer.

    Attributes:
        rows: Layer index to arrays of shape [tokens, width], one for each evaluation.
    """

    def __init__(self, prefix: str, dtype: type[np.generic]) -> None:
        self.rows: dict[int, list[np.ndarray]] = {}
        self._prefix = prefix
        self._dtype = dtype
        self._ggml = _engine_library()
        self._ggml.ggml_get_name.restype = ctypes.c_char_p
        self._ggml.ggml_get_name.argtypes = [ctypes.c_void_p]
        self._ggml.ggml_nrows.restype = ctypes.c_int64
        self._ggml.ggml_nrows.argtypes = [ctypes.c_void_p]
        self._ggml.ggml_nbytes.restype = ctypes.c_size_t
        self._ggml.ggml_nbytes.argtypes = [ctypes.c_void_p]
        self._ggml.ggml_backend_tensor_get.restype = None
        self._ggml.ggml_backend_tensor_get.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_size_t,
        ]
        self.callback = llama_cpp.ggml_backend_sched_eval_callback(self._on_tensor)

    def _on_tensor(self, tensor: int, ask: bool, _user_data: int) -> bool:
        prefix, _, layer = self._ggml.ggml_get_name(tensor).decode().rpartition("-")
        wanted = prefix == self._prefix and layer.isdecimal()
        if wanted and not ask:
            data = np.empty(self._ggml.ggml_nbytes(tensor) // np.dtype(self._dtype).itemsize, self._dtype)
            self._ggml.ggml_backend_tensor_get(tensor, data.ctypes.data, 0, data.nbytes)
            self.rows.setdefault(int(layer), []).append(data.reshape(self._ggml.ggml_nrows(tensor), -1))
        # Asked before the computation, True means "I want to see it"; after it, "go on".
        return wanted or not ask


def _engine_library() -> ctypes.CDLL:
    """The engine's loaded library, through which the ggml it is linked to is found as well.

    Opening libggml by its own name could load a second copy, with an empty list of backends.
    """
    return llama_cpp.llama_cpp._lib


@contextmanager
def open_context(model: Path, callback: object) -> Iterator[tuple[int, int]]:
    """Load a model on the CPU and yield (context, vocabulary), with `callback` seeing the tensors."""
    folder = Path(llama_cpp.__file__).parent / "lib"
    load_all = _engine_library().ggml_backend_load_all_from_path
    load_all.restype, load_all.argtypes = None, [ctypes.c_char_p]
    load_all(str(folder).encode())
    llama_cpp.llama_backend_init()
    model_params = llama_cpp.llama_model_default_params()
    model_params.n_gpu_layers = 0
    loaded = llama_cpp.llama_model_load_from_file(str(model).encode(), model_params)
    if not loaded:
        raise SystemExit(f"{model} could not be loaded")
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.n_threads = params.n_threads_batch = THREADS
    params.op_offload = False  # a GPU rounds differently, and the tensors would be the GPU's
    params.cb_eval = callback
    context = llama_cpp.llama_init_from_model(loaded, params)
    try:
        yield context, llama_cpp.llama_model_get_vocab(loaded)
    finally:
        llama_cpp.llama_free(context)
        llama_cpp.llama_model_free(loaded)


def tokens_of(vocabulary: int, text: str) -> list[int]:
    """Tokens of a text, control tokens such as <|im_start|> recognised."""
    raw = text.encode()
    buffer = (llama_cpp.llama_token * BATCH_TOKENS)()
    count = llama_cpp.llama_tokenize(vocabulary, raw, len(raw), buffer, BATCH_TOKENS, False, True)
    if count < 0:
        raise SystemExit(f"a text has {-count} tokens, more than {BATCH_TOKENS}")
    return list(buffer[:count])


def evaluate(context: int, tokens: list[int]) -> None:
    """Compute one text from an empty cache, with an output for every token.

    Without outputs everywhere, the last layer would be computed for the last token alone.
    """
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for position, token in enumerate(tokens):
        batch.token[position] = token
        batch.pos[position] = position
        batch.n_seq_id[position] = 1
        batch.seq_id[position][0] = 0
        batch.logits[position] = True
    status = llama_cpp.llama_decode(context, batch)
    llama_cpp.llama_batch_free(batch)
    if status != 0:
        raise SystemExit(f"the engine could not compute a text (status {status})")


def statistics(inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean [width] and whitening directions [DIRECTIONS, width] of router inputs [tokens, width].

    `directions @ (input - mean)` has unit variance in every coordinate, and no correlations.
    """
    mean = inputs.mean(axis=0)
    _, scales, axes = np.linalg.svd(inputs - mean, full_matrices=False)
    deviations = scales[:DIRECTIONS] / np.sqrt(len(inputs) - 1)
    return mean, axes[:DIRECTIONS] / deviations[:, None]


def main() -> None:
    """Record the statistics and write them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("router_statistics.npz"))
    out = parser.parse_args().out
    source = find_source()
    verify_source(source)
    recorder = TensorRecorder("ffn_norm", np.float32)
    count = 0
    with open_context(source, recorder.callback) as (context, vocabulary):
        for text in TEXTS:
            tokens = tokens_of(vocabulary, text)
            evaluate(context, tokens)
            count += len(tokens)
    layers = [
        statistics(np.concatenate([rows[SKIPPED_POSITIONS:] for rows in recorder.rows[layer]]).astype(np.float64))
        for layer in sorted(recorder.rows)
    ]
    np.savez(
        out,
        mean=np.stack([mean for mean, _ in layers]).astype(np.float32),
        directions=np.stack([directions for _, directions in layers]).astype(np.float16),
    )
    print(f"{count} tokens, {len(layers)} layers: {out} ({out.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
