"""Expert Lanes: local chat with Mixture-of-Experts models and a tuner you work with your hands.

Dependencies point one way: ui, cli and server on top; engine.client, placement, hardware, library and
chat below them; model at the bottom. `tests/test_architecture.py` enforces it.
"""
