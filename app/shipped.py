"""The weights that come with Repaint."""

from pathlib import Path

_FOLDER = Path(__file__).resolve().parents[1] / "checkpoints"
CHECKPOINT = _FOLDER / "artworks.safetensors"
CLASSIFIER = _FOLDER / "style_classifier.safetensors"
GALLERY_CLASSIFIER = _FOLDER / "gallery_classifier.safetensors"  # over twenty classes
