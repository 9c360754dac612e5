"""Choosing codes: medoids stand for their folder, folders come by name."""

import pytest
import torch

from app import codes


def test_medoids_stand_for_their_clusters():
    rows = torch.cat([torch.zeros(5, 2), torch.full((4, 2), 9.0)]) + 0.1 * torch.randn(9, 2)
    chosen = codes.medoids(rows, 2)
    assert {int(i) // 5 for i in chosen} == {0, 1}
    assert len(set(codes.medoids(rows, 20))) == 9


def test_a_single_painting_is_its_own_medoid():
    assert codes.medoids(torch.ones(1, 3), 4) == [0]


def test_the_same_painting_again_does_not_confuse_the_medoids():
    assert sorted(codes.medoids(torch.ones(3, 2), 3)) == [0, 1, 2]


def test_folders_keep_their_order_and_may_share_a_name_only_where_codes_are_learned():
    pairs = ["warm=a", "cold=b", "warm=c=d"]
    assert codes.named_folders(pairs) == [("warm", "a"), ("cold", "b"), ("warm", "c=d")]
    with pytest.raises(ValueError, match="'warm' is taken"):
        codes.style_folders(pairs)


@pytest.mark.parametrize("pair", ["warm", "=a", "warm=", "a/b=c"])
def test_what_is_not_a_name_and_a_folder_is_refused(pair):
    with pytest.raises(ValueError, match="--learn must be NAME=FOLDER"):
        codes.named_folders([pair], "--learn")
