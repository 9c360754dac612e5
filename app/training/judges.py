"""What teaches: frozen networks that look at results, and a discriminator that learns."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

import models
from app.training.data import TrainingData
from app.training.references import Signatures
from app.training.settings import Settings
from models.objective import DEEPEST_LAYER, Judges
from models.reference import ReferenceDiscriminator

FEATURE_WIDTH = 96  # of the discriminator on features

Module = TypeVar("Module", bound=nn.Module)


def make_judges(settings: Settings, data: TrainingData, device: torch.device) -> Judges:
    """The judges that a run's losses need; and the data's signatures, where one is told them.

    Raises:
        FileNotFoundError: the weights of a frozen network are not installed.
    """

    def frozen(module: Module) -> Module:
        module = module.to(device)
        if device.type == "cuda":
            module = module.to(memory_format=torch.channels_last)
        if settings.compile:
            # A machine that can't compile trains as before.
            torch._dynamo.config.suppress_errors = True
            module.compile(dynamic=False)
        return module

    perceptual = projection = None
    discriminator: models.FeatureDiscriminator | models.MultiScaleDiscriminator | None = None
    if settings.perceptual != "none":
        perceptual = frozen(models.PerceptualNetwork(settings.perceptual, last=DEEPEST_LAYER))
    if settings.weights.adversarial > 0 and perceptual is not None:
        projection = frozen(models.EfficientNetFeatures(settings.projection))
        kind = models.FeatureDiscriminator
        if settings.references is not None:
            kind = ReferenceDiscriminator
            data.signatures = Signatures(data.paintings, projection, device)
        discriminator = kind(projection.channels, len(data.domains), width=FEATURE_WIDTH).to(device)
        discriminator.calibrate(projection(data.examples()))
    elif settings.weights.adversarial > 0:
        width = 2 * settings.config.width
        discriminator = models.MultiScaleDiscriminator(len(data.domains), width=width).to(device)
    return Judges(perceptual, projection, discriminator, settings.augment)
