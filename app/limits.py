"""How much is painted, read and remembered at a time."""

from dataclasses import dataclass

from app import mapped

# Bytes of content a pixel of a photo: features have 24, and what the photo gives to the painting
# directly up to 36 more.
CONTENT_BYTES = 60

# Visitors beyond these are told that the queue is full; at a second or two a picture the last one
# waits for about a minute.
LONGEST_QUEUE = 32


@dataclass(frozen=True)
class Limits:
    """What a painter holds itself to; the defaults suit a machine with 2 GiB of free memory.

    Attributes:
        whole: pixels (width x height); a larger photo is painted in tiles. Painting takes about
            0.4 GB a megapixel. What larger strokes leave of a photo for the network to see may
            have as many.
        tile: the side of a tile's core, pixels: with what the network sees around it, it is a
            photo of ``whole``.
        sample_side: the side of a sample, pixels. The statistics of a photo in tiles are read from
            samples of it.
        sampled_share, fewest_sampled: one of so many pixels is sampled, but no fewer than this and
            no more than ``whole``. Each reading is repeated for every region.
        sampled_of_a_shot: pixels that are sampled of all frames of a shot.
        together: pixels painted in one pass where pictures of one size are painted together.
        style_side: a painting's statistics are recorded at this many pixels on its longest side,
            near the scale at which the network learned strokes. More would make its strokes finer
            than any the network has seen, and cost time and memory.
        remembered_paintings: codes of own paintings that are kept. The demo runs for days and each
            upload is a style: the least recently used are let go.
        simplified: bytes of a large photo with less detail, kept while it is painted. One of more
            is simplified twice.
        remembered_content: bytes of content of the photos painted last, kept so that another style
            on one of them is faster: ten of 512 px or two of a megapixel. Visitors come and go,
            and a crowd of them should not leave more behind. 0 keeps none.
        remembered_drawings: bytes of what the network made of them before it was finished, kept so
            that a change of the finish is faster: ten of 512 px, or of 1,024 with strokes twice as
            large.
        in_memory: bytes of a result's pixels; those of a larger one lie in a file, see
            :mod:`app.mapped`.
    """

    whole: int = 2 * 1024 * 1024
    tile: int = 1296
    sample_side: int = 128
    sampled_share: int = 8
    fewest_sampled: int = 512 * 1024
    sampled_of_a_shot: int = 1024 * 1024
    together: int = 8_000_000
    style_side: int = 512
    remembered_paintings: int = 32
    simplified: int = 320 * 2**20
    remembered_content: int = 64 * 2**20
    remembered_drawings: int = 32 * 2**20
    in_memory: int = mapped.LARGE

    def sampled(self, pixels: int) -> int:
        """How many of a region's pixels its statistics are read from."""
        if pixels <= self.whole:
            return pixels
        return min(max(pixels // self.sampled_share, self.fewest_sampled), self.whole)


LIMITS = Limits()
