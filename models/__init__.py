"""The networks built from wct: repainter, discriminators, perceptual network, losses."""

from models.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from models.discriminator import FeatureDiscriminator, MultiScaleDiscriminator
from models.network import Repainter, RepainterConfig
from models.perceptual import PerceptualNetwork
from models.style_code import StyleCode

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "FeatureDiscriminator",
    "MultiScaleDiscriminator",
    "PerceptualNetwork",
    "Repainter",
    "RepainterConfig",
    "StyleCode",
    "load_checkpoint",
    "save_checkpoint",
]
