"""What the paintings show that the built-in styles were learned from.

The data that the shipped weights were trained on names their files and painters, not their titles:
so it is told what one sees. The checkpoint's record says which file each code is of.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SHOW = {
    "cezanne_0123": "flowers in a blue vase",
    "cezanne_0059": "a house behind trees",
    "cezanne_0055": "a rest under a tree",
    "cezanne_0012": "a man in a cap",
    "monet_0071": "poppies under clouds",
    "monet_0143": "a meadow with poplars",
    "monet_0119": "a road at dusk",
    "monet_0103": "a village in snow",
    "ukiyoe_0231": "a man with a barrel",
    "ukiyoe_0193": "a temple by a lake",
    "ukiyoe_0334": "an actor and a drum",
    "ukiyoe_0141": "travelers under pines",
    "vangogh_0358": "harvest on a plain",
    "vangogh_0179": "cottages in the sun",
    "vangogh_0320": "a garden in summer",
    "vangogh_0217": "a reaper among sheaves",
    "cubism_0172": "planes of white and ochre",
    "etching_0130": "studies of two heads",
    "fauvism_0023": "rain among leaves",
    "japan_landscape_0017": "Fuji above a lake",
    "pirosmani_0110": "fish, fowl and a kebab",
    "pointillism_0141": "a bay in pink light",
    "pointillism_0169": "the sea between rocks",
    "rousseau_0042": "a herdsman under trees",
    "tarot_pcs_0000": "the ace of cups",
    "tarot_pcs_0019": "the six of pentacles",
    "tarot_pcs_0047": "the sun",
}

# What the styles were learned from that have a code of many pictures.
_OF_MANY = {
    "hokusai": "prints by Hokusai and Hiroshige",
    "pointillism": "pointillist paintings",
    "etching": "etchings by Rembrandt",
    "cubism": "cubist paintings",
    "fauvism": "fauvist paintings",
    "rousseau": "paintings by Henri Rousseau",
    "pirosmani": "paintings by Niko Pirosmani",
    "tarot": "tarot cards by Pamela Colman Smith",
}


def learned_from(record: Mapping[str, Any]) -> dict[str, str]:
    """What each code was learned from, by the code's name; nothing of unknown ones."""
    found = shown_by(record)
    added = record.get("added")
    for style, about in added.items() if isinstance(added, Mapping) else ():
        counts = about.get("learned_from") if isinstance(about, Mapping) else None
        count = counts.get(style) if isinstance(counts, Mapping) else None
        if style in _OF_MANY and isinstance(count, list) and len(count) == 1:
            found[_named(style, _of_many(record, style))] = f"{count[0]} {_OF_MANY[style]}"
    return found


def _of_many(record: Mapping[str, Any], style: str) -> int:
    """Which of a style's codes is of many pictures, the first being 1."""
    files = _files(record).get(style, [])
    own = (number for number, file in enumerate(files, 1) if str(file).startswith("own:"))
    return next(own, 1)


def _files(record: Mapping[str, Any]) -> dict[str, list[Any]]:
    """By style, the file that each of its codes is of; whatever else a record says is passed over.

    Nothing else is done with a record, so that no reader of checkpoints has checked it.
    """
    codes = record.get("codes")
    about = {
        style: one.get("from")
        for style, one in (codes.items() if isinstance(codes, Mapping) else ())
        if isinstance(one, Mapping)
    }
    return {style: files for style, files in about.items() if isinstance(files, list)}


def _named(style: str, number: int) -> str:
    return style if number == 1 else f"{style}:{number}"


def shown_by(record: Mapping[str, Any]) -> dict[str, str]:
    """What each code's painting shows, by the code's name ("monet:2"); nothing of unknown ones."""
    found: dict[str, str] = {}
    for style, files in _files(record).items():
        for number, file in enumerate(files, 1):
            shows = _SHOW.get(Path(str(file)).stem)
            if shows:
                found[_named(style, number)] = shows
    return found
