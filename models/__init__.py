"""The networks built from wct: repainter, discriminators, perceptual network, losses, judges."""

from models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from models.classifier import StyleClassifier, load_classifier, save_classifier
from models.configuration import RepainterConfig
from models.discriminator import FeatureDiscriminator, MultiScaleDiscriminator
from models.efficient import EfficientNetFeatures
from models.finish import Amounts, Ground
from models.learned_code import LearnedCode
from models.network import Content, Repainter
from models.perceptual import PerceptualNetwork
from models.refinement import CodeRefinement
from models.style_code import StyleCode
from models.weights_file import CheckpointError

__all__ = [
    "Amounts",
    "Checkpoint",
    "CheckpointError",
    "CodeRefinement",
    "Content",
    "EfficientNetFeatures",
    "FeatureDiscriminator",
    "Ground",
    "LearnedCode",
    "MultiScaleDiscriminator",
    "PerceptualNetwork",
    "Repainter",
    "RepainterConfig",
    "StyleClassifier",
    "StyleCode",
    "load_checkpoint",
    "load_classifier",
    "save_checkpoint",
    "save_classifier",
]
