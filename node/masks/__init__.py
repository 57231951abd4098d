"""Segmentation: a small U-Net that learns from a folder which pixels of an image belong to something.

    [model]
    learner = "node.masks:unet"
    args = { size = [64, 64], channels = 3, width = 8 }

    FOLDER/images/NAME.png, FOLDER/masks/NAME.png      # --data FOLDER; white in a mask: belongs to it

Epochs, batches, rate and device are those of `[train]`; the optimiser is Adam. `data.test_fraction` of
the images, drawn by their files, is held back. The headline is Dice of all their pixels.
"""

from node.masks.learner import MaskLearner, unet
from node.masks.written import predict, write_masks

__all__ = ["MaskLearner", "predict", "unet", "write_masks"]
