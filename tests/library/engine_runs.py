"""Runs models in the engine for test_demo_in_engine.py: a child, because llama.cpp may end its process.

Arguments: the dense model, the demo model. Prints one JSON object.
"""

import json
import sys
from pathlib import Path

import llama_cpp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "resources" / "demo"))

import record_router_statistics as recording

# None of it is among the texts that the router's statistics were recorded over.
TEXTS = (
    "<|im_start|>user\nGive me three tips for learning to swim as an adult.<|im_end|>\n<|im_start|>assistant\n"
    "1. Start in shallow water, where you can stand at any time. 2. Practise floating before you practise "
    "strokes. 3. Breathe out under water, slowly, and breathe in above it.<|im_end|>\n",
    "The old clock in the hall had stopped at ten past four on the day the family moved out, and nobody had "
    "dared to wind it since. When Marta came back to sell the house, she stood before it for a long while, "
    "listening to the silence, and then she opened the little glass door and put the key in.",
    "class Settings:\n    def __init__(self, path):\n        self.path = path\n        self.values = {}\n\n"
    "    def save(self):\n        self.path.write_text(json.dumps(self.values, indent=2))\n",
    "Die Katze lag auf dem warmen Fensterbrett und beobachtete die Tauben auf dem Dach gegenüber. Erst als "
    "der Regen begann, sprang sie herunter und verlangte laut nach ihrem Futter.",
    "To prove that the square root of two is irrational, assume that it equals p/q in lowest terms. Then "
    "p^2 = 2 q^2, so p is even, say p = 2r. Then 4 r^2 = 2 q^2, hence q is even too, a contradiction.",
)
PROMPT = "<|im_start|>user\nWrite a short poem about the sea.<|im_end|>\n<|im_start|>assistant\n"
ANSWER_TOKENS = 60


def last_logits(context, vocabulary):
    count = llama_cpp.llama_vocab_n_tokens(vocabulary)
    return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, -1), (count,)).copy()


def greedy(context, vocabulary):
    """The tokens of a greedy answer, and the logits it was begun with."""
    recording.evaluate(context, recording.tokens_of(vocabulary, PROMPT))
    first = logits = last_logits(context, vocabulary)
    answer = []
    while len(answer) < ANSWER_TOKENS:
        token = int(logits.argmax())
        answer.append(token)
        if llama_cpp.llama_vocab_is_eog(vocabulary, token):
            break
        batch = llama_cpp.llama_batch_get_one((llama_cpp.llama_token * 1)(token), 1)
        assert llama_cpp.llama_decode(context, batch) == 0
        logits = last_logits(context, vocabulary)
    return answer, first


def main():
    dense, demo = map(Path, sys.argv[1:])
    inputs = recording.TensorRecorder("ffn_norm", np.float32)
    with recording.open_context(dense, inputs.callback) as (context, vocabulary):
        for text in TEXTS:
            recording.evaluate(context, recording.tokens_of(vocabulary, text))
        np.savez(demo.with_name("router_inputs.npz"), **{str(k): np.concatenate(v) for k, v in inputs.rows.items()})
        dense_answer, dense_logits = greedy(context, vocabulary)
    sorted_experts = recording.TensorRecorder("ffn_moe_argsort", np.int32)
    with recording.open_context(demo, sorted_experts.callback) as (context, vocabulary):
        demo_answer, demo_logits = greedy(context, vocabulary)
    used = [np.concatenate(rows)[:, :2] for _, rows in sorted(sorted_experts.rows.items())]
    print(
        json.dumps(
            {
                "dense_answer": dense_answer,
                "demo_answer": demo_answer,
                "largest_logit_difference": float(np.abs(dense_logits - demo_logits).max()),
                "experts_seen": [sorted({int(expert) for expert in layer.ravel()}) for layer in used],
            }
        )
    )


if __name__ == "__main__":
    main()
