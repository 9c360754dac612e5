"""What styles may want of a photo."""

import models

# All there is to want, as a print does.
PRINT = models.Ground(
    simplify=0.2,
    strokes=0.5,
    outlines=0.5,
    tint=0.2,
    flatten=0.05,
    grain=0.02,
    tone=0.4,
    register=0.6,
    faces=0.6,
)
