"""Chooses the next token: a llama.cpp sampler chain made from the request's settings."""

import secrets

from llama_cpp import llama_cpp as llama

from app.engine.protocol import Sampling

_RANDOM = 0xFFFFFFFF  # llama.cpp's LLAMA_DEFAULT_SEED: it would draw a seed of its own


def _seed(wanted: int | None) -> int:
    """A seed llama.cpp takes as it is: 32 bits, and not the one that means "draw one"."""
    return (secrets.randbits(32) if wanted is None else wanted) % _RANDOM


class Sampler:
    """A sampler chain for one answer; close it.

    Order as llama.cpp's own tools have it: top-k, top-p, min-p, temperature, then the draw.
    """

    def __init__(self, sampling: Sampling) -> None:
        self._chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
        if sampling.temperature <= 0:
            self._add(llama.llama_sampler_init_greedy())
            return
        if sampling.top_k > 0:
            self._add(llama.llama_sampler_init_top_k(sampling.top_k))
        if sampling.top_p < 1:
            self._add(llama.llama_sampler_init_top_p(sampling.top_p, 1))
        if sampling.min_p > 0:
            self._add(llama.llama_sampler_init_min_p(sampling.min_p, 1))
        self._add(llama.llama_sampler_init_temp(sampling.temperature))
        self._add(llama.llama_sampler_init_dist(_seed(sampling.seed)))

    def _add(self, sampler: object) -> None:
        llama.llama_sampler_chain_add(self._chain, sampler)

    def sample(self, context: int) -> int:
        """The token drawn from the last position's logits."""
        return int(llama.llama_sampler_sample(self._chain, context, -1))

    def close(self) -> None:
        """Free the chain and its members."""
        llama.llama_sampler_free(self._chain)

    def __enter__(self) -> "Sampler":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
