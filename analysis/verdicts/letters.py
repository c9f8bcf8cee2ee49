"""Compact letter displays: variants that share a letter are not shown to differ.

Source: Piepho, J. Computational and Graphical Statistics 13 (2004), 456-466 (insert and absorb).
"""

from collections.abc import Iterable, Sequence
from string import ascii_lowercase

MOST_LETTERS = 10  # with more, nobody compares them


def compact_letters(names: Sequence[str], different: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Name -> its letters; empty where more than `MOST_LETTERS` are needed.

    Two names of a `different` pair share no letter, two others share at least one. The first name has the letter a.
    """
    groups = [set(names)]
    for a, b in different:
        split = [group - {one} for group in groups if {a, b} <= group for one in (b, a)]
        groups = [group for group in groups if not {a, b} <= group]
        for group in sorted(split, key=len, reverse=True):  # one within another says nothing
            groups += [] if any(group <= other for other in groups) else [group]
    if len(groups) > MOST_LETTERS:
        return {}
    groups.sort(key=lambda group: sorted(names.index(name) for name in group))
    return {name: "".join(letter for letter, group in zip(ascii_lowercase, groups) if name in group) for name in names}
