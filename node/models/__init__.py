"""The models in the package; a task names any other torch module by its import path."""

from node.models.additive import Additive
from node.models.attention import attention_mask
from node.models.lora import with_adapters
from node.models.networks import MLP, ConvNet, Linear
from node.models.scattering import Scattering
from node.models.trees import Trees

__all__ = ["MLP", "Additive", "ConvNet", "Linear", "Scattering", "Trees", "attention_mask", "with_adapters"]
