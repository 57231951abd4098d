"""The same job here, under Flower and under NVIDIA FLARE."""
