"""Compact letter displays: variants that share a letter are not shown to differ.

Source: Piepho, J. Computational and Graphical Statistics 13 (2004), 456-466 (insert and absorb).
"""

from collections.abc import Iterable, Sequence
from string import ascii_lowercase


def compact_letters(names: Sequence[str], different: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Name -> its letters. Two names of a `different` pair share no letter, two others share at least one.

    The first name has the letter a. From the 27th letter on, letters have numbers: a2, b2.
    """
    groups = [set(names)]
    for a, b in different:
        split = [group - {one} for group in groups if {a, b} <= group for one in (b, a)]
        groups = [group for group in groups if not {a, b} <= group]
        for group in sorted(split, key=len, reverse=True):  # one within another says nothing
            groups += [] if any(group <= other for other in groups) else [group]
    groups.sort(key=lambda group: sorted(names.index(name) for name in group))
    letters = [ascii_lowercase[n % 26] + (str(n // 26 + 1) if n >= 26 else "") for n in range(len(groups))]
    return {name: "".join(letter for letter, group in zip(letters, groups) if name in group) for name in names}
