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
    letters = {name: "" for name in names}
    for number, group in enumerate(groups):
        repeat, place = divmod(number, len(ascii_lowercase))
        for name in names:
            letters[name] += (ascii_lowercase[place] + (str(repeat + 1) if repeat else "")) * (name in group)
    return letters
