"""What a GGUF file is: facts, tensor roles, shards.

Pure: imports no Qt and no llama.cpp, only `app.errors`.
May be imported by every other package.
"""

from app.model.facts import ModelFacts
from app.model.reader import ExpertTensor, read_expert_tensors, read_facts, read_tensor_bytes

__all__ = ["ExpertTensor", "ModelFacts", "read_expert_tensors", "read_facts", "read_tensor_bytes"]
