"""The derived accuracies of the probes against counts by hand, and what each kind encodes against what it does."""

from fractions import Fraction

import pytest
import torch
from torch import Tensor

from analysis.claims.theory import RELATIONS, Expected, expected
from experiments.data.probes import CELLS, PROBES
from vit import ViTConfig
from vit.pos_embed import build
from vit.registry import REGISTRY

CHANCE = {"probe-where": 16, "probe-direction": 4, "probe-distance": 3, "probe-arrow": 4}
ONE = Fraction(1)
DERIVED = {  # (probe, encodes) -> alone, border; counted by hand, see the docstring of analysis.claims.theory
    ("probe-where", "none"): (ONE / 16, ONE / 16),
    ("probe-where", "absolute"): (ONE, ONE),
    ("probe-where", "relative-2d"): (ONE / 16, ONE),
    ("probe-where", "relative-2d-binned"): (ONE / 16, ONE),
    ("probe-where", "relative-1d"): (ONE / 16, ONE),
    ("probe-where", "distance"): (ONE / 16, Fraction(3, 16)),  # corner, edge, middle: one cell of each
    ("probe-where", "local"): (ONE / 16, ONE),
    ("probe-direction", "none"): (ONE / 4, ONE / 4),
    ("probe-direction", "absolute"): (ONE, ONE),
    ("probe-direction", "relative-2d"): (ONE, ONE),
    ("probe-direction", "relative-2d-binned"): (ONE, ONE),  # the signs are seen
    ("probe-direction", "relative-1d"): (Fraction(2, 3), ONE),  # 6 of 9 offsets share their number with another's
    ("probe-direction", "distance"): (ONE / 4, ONE / 4),
    ("probe-direction", "local"): (Fraction(1, 3), ONE),  # 1 of 9 offsets is seen, the others are guessed
    ("probe-distance", "none"): (ONE / 3, ONE / 3),
    ("probe-distance", "absolute"): (ONE, ONE),
    ("probe-distance", "relative-2d"): (ONE, ONE),
    # 2 and 3 share a bin: of the 38 far pairs, 8 with offset (0, 3) or (3, 0) look like (0, 2), and 12 with 1 and 3
    # like 1 and 2; there are more of these, both middle
    ("probe-distance", "relative-2d-binned"): (1 - Fraction(20, 3 * 38), ONE),
    # of 42 near, 40 middle and 38 far pairs these share their number with more of another class, and are lost:
    # far (1, -3) 3, (0, 3) 4, (2, -3) 2, (2, -2) 4, (1, 3) 3, (3, -3) 1
    ("probe-distance", "relative-1d"): (1 - Fraction(17, 3 * 38), ONE),
    ("probe-distance", "distance"): (ONE, ONE),
    ("probe-distance", "local"): (Fraction(2, 3), ONE),  # touching marks are seen; middle and far are one
    ("probe-arrow", "none"): (ONE / 4, ONE / 4),
    ("probe-arrow", "absolute"): (ONE, ONE),
    ("probe-arrow", "relative-2d"): (ONE, ONE),
    ("probe-arrow", "relative-2d-binned"): (ONE, ONE),
    ("probe-arrow", "relative-1d"): (ONE, ONE),  # offsets -8, -4, -2, -1, 1, 2, 4 and 8: each has one side
    ("probe-arrow", "distance"): (ONE / 4, ONE / 4),
    # a side is two cells long for half of the base cells, so the arrow that counts is two away, unseen, in 1/4 of the
    # layouts. The other long side has its arrow two away in half of these; then it is one of two, else the one missing
    ("probe-arrow", "local"): (Fraction(15, 16), ONE),
}


@pytest.mark.parametrize(("name", "encodes"), [(name, encodes) for name in PROBES for encodes in RELATIONS])
def test_what_can_be_known_is_as_counted_by_hand(name: str, encodes: str) -> None:
    assert expected(name, encodes) == Expected(Fraction(1, CHANCE[name]), *DERIVED[name, encodes])


def test_a_class_token_that_sees_places_knows_the_cell() -> None:
    assert expected("probe-where", "relative-2d", "absolute").alone == 1


def hooks(kind: str) -> tuple[Tensor, Tensor]:
    """What a kind with large random weights does of itself to (patch, patch) [16, 16, F] and (patch, prefix) [16, F].

    To tokens that are all alike: the logits between each two, the vector that each is given, what a change of one
    does to what the other is given, and what attention to one alone gives to the other.
    """
    shape = {"img_size": 8, "patch_size": 2, "in_chans": 1, "embed_dim": 32, "num_heads": 8, "num_classes": 2}
    torch.manual_seed(0)
    pos = build(ViTConfig(**shape, pos_embed=kind))[0].double()
    for parameter in pos.parameters():
        torch.nn.init.normal_(parameter)
    q, k = torch.randn(2, 1, 8, 1, 4, dtype=torch.float64).expand(2, 1, 8, 17, 4)
    turned_q, turned_k = pos.rotate(q, k)
    logits = turned_q @ turned_k.transpose(-2, -1) + (0 if pos.bias(q) is None else pos.bias(q))
    logits = torch.cat([logits[0], logits[0].transpose(-2, -1)]).permute(1, 2, 0)  # [17, 17, 2 H]
    blank = torch.zeros(1, 17, 32, dtype=torch.float64)
    one = torch.eye(17, dtype=torch.float64)[..., None].expand(-1, -1, 32)
    given = pos.add(blank)[0]  # [17, D]
    change = pos.add(one) - one - given  # [17, 17, D]
    pairs = [given[:, None].expand(17, 17, 32), given[None].expand(17, 17, 32), change, change.transpose(0, 1)]
    columns = pos.values(torch.zeros(1, 8, 17, 4, dtype=torch.float64))  # what attention mixes: here each key alone
    mixed = torch.stack([pos.mixed(columns[:, :, [key]].expand(-1, -1, 17, -1))[0] for key in range(17)], 2)
    mixed = mixed.permute(1, 2, 0, 3).flatten(2)  # [17 (query), 17 (key), H Dh]
    pairs += [mixed, mixed.transpose(0, 1)]
    effect = torch.cat([logits, *pairs], -1).detach()
    return effect[1:, 1:], effect[1:, 0]


@pytest.mark.parametrize("kind", REGISTRY)
def test_a_kind_tells_what_it_says_no_less_and_no_more(kind: str) -> None:
    """Pairs that the relation does not tell apart have one effect, and any others two."""
    pairs, prefix = hooks(kind)
    encodes = [RELATIONS[REGISTRY[kind].encodes](a, b) for a in CELLS for b in CELLS]
    encodes_prefix = [RELATIONS[REGISTRY[kind].encodes_prefix](cell, cell) for cell in CELLS]
    for relation, effect in ((encodes, pairs.reshape(256, -1)), (encodes_prefix, prefix)):
        same = torch.tensor([[a == b for b in relation] for a in relation])
        assert torch.equal((effect[:, None] - effect[None]).abs().amax(-1) < 1e-5, same)  # tables are float32
