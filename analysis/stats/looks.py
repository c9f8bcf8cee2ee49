"""Testing after each of several planned numbers of seeds (group-sequential tests).

Testing repeatedly at 5 % finds false differences in more than 5 % of all studies. Here the planned looks share the 5 %:
each has its own, smaller significance level. Spending is of the O'Brien-Fleming type: early looks get little, so the last
look is nearly as strict as a single test.
Sources: Lan and DeMets, Biometrika 70 (1983), 659-663; Jennison and Turnbull, Group Sequential Methods (2000), chapters 7
(spending functions), 3.8 (t tests: each look's p-value is compared with the level of the normal test) and 19 (integration).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from scipy import optimize, special

from experiments.errors import UserError

NODES = 256  # of the Gauss-Legendre quadrature
FURTHEST = 10.0  # standard errors, beyond which there is no probability to speak of


def levels(looks: Sequence[int], alpha: float = 0.05) -> list[float]:
    """The two-sided significance level of each look; `looks` are the planned numbers of seeds, for example 5, 10, 20.

    A study may stop at the first look whose p-value is at most its level. Raises `UserError` where the looks do not rise.
    """
    if not looks or looks[0] < 2 or any(later <= earlier for earlier, later in pairwise(looks)):
        raise UserError(f"looks: {list(looks)} is not a rising list of numbers of seeds from 2 on")
    if not 0 < alpha < 0.5:
        raise UserError(f"alpha: {alpha!r} is not between 0 and 0.5")
    information = np.asarray(looks, dtype=float) / looks[-1]
    spent = np.diff(obrien_fleming_spending(information, alpha), prepend=0.0)
    walk, found = _Walk(), []
    for share, level in zip(information.tolist(), spent.tolist(), strict=True):
        walk.advance(share)
        bound = optimize.brentq(lambda z, level=level: walk.crossing(z) - level, 0.0, FURTHEST, xtol=1e-12)
        walk.stop_beyond(bound)
        found.append(float(2 * special.ndtr(-bound)))
    return found


def obrien_fleming_spending(information: np.ndarray, alpha: float) -> np.ndarray:
    """How much of a two-sided alpha is spent at these shares (looks,) of the final number of seeds."""
    return 4 * special.ndtr(special.ndtri(alpha / 4) / np.sqrt(information))


def crossing_probabilities(information: Sequence[float], bounds: Sequence[float]) -> list[float]:
    """Without a true difference, the probability of stopping at each look: |z| at or beyond its bound for the first time."""
    return list(_crossings(information, bounds))


def _crossings(information: Sequence[float], bounds: Sequence[float]) -> Iterator[float]:
    walk = _Walk()
    for share, bound in zip(information, bounds, strict=True):
        walk.advance(share)
        yield walk.crossing(bound)
        walk.stop_beyond(bound)


class _Walk:
    """The score s = z sqrt(information) of studies that have not stopped: a random walk, as a density on quadrature nodes."""

    def __init__(self) -> None:
        self.information = self.before = 0.0
        self.nodes, self.mass = np.zeros(1), np.ones(1)

    def advance(self, information: float) -> None:
        """Go on to the next look."""
        self.before, self.information = self.information, information

    def crossing(self, bound: float) -> float:
        """The probability of |z| at or beyond `bound` at this look, without having stopped before."""
        edge, step = bound * np.sqrt(self.information), np.sqrt(self.information - self.before)
        tails = special.ndtr((self.nodes - edge) / step) + special.ndtr((-self.nodes - edge) / step)
        return float(self.mass @ tails)

    def stop_beyond(self, bound: float) -> None:
        """Keep the studies with |z| below `bound`."""
        edge, step = bound * np.sqrt(self.information), np.sqrt(self.information - self.before)
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        nodes, weights = edge * nodes, edge * weights
        moved = (nodes[:, None] - self.nodes) / step
        self.mass = weights * (np.exp(-(moved**2) / 2) @ self.mass) / (step * np.sqrt(2 * np.pi))
        self.nodes = nodes
