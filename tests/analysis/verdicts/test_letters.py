"""Compact letter displays against their definition."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from analysis.verdicts import compact_letters

NAMES = list("PQRSTUVW")
PAIRS = list(combinations(NAMES, 2))


def shared(letters: dict[str, str], a: str, b: str) -> bool:
    return bool(set(letters[a]) & set(letters[b]))


@given(st.sets(st.sampled_from(PAIRS)))
def test_two_names_share_a_letter_if_and_only_if_they_are_not_different(different):
    letters = compact_letters(NAMES, different)
    if not letters:
        return  # more than ten
    assert all(shared(letters, a, b) == ((a, b) not in different) for a, b in PAIRS)
    groups = [{name for name in NAMES if letter in letters[name]} for letter in set("".join(letters.values()))]
    assert not any(a < b for a in groups for b in groups)  # no letter that says nothing


def test_a_chain_of_neighbours_that_do_not_differ():
    different = [(a, b) for a, b in combinations("PQRS", 2) if "PQRS".index(b) - "PQRS".index(a) > 1]
    assert compact_letters("PQRS", different) == {"P": "a", "Q": "ab", "R": "bc", "S": "c"}


def test_more_than_ten_letters_are_none():
    """Of 2 n names, each differs from one other only: 2 to the power of n letters."""
    names = [f"{side}{i}" for i in range(4) for side in "ab"]
    assert len(set("".join(compact_letters(names, [(f"a{i}", f"b{i}") for i in range(3)]).values()))) == 8
    assert compact_letters(names, [(f"a{i}", f"b{i}") for i in range(4)]) == {}
