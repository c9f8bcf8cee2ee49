"""Which rows of a table are of runs that did not end: by the name of a column and its values, whatever wrote them."""

import re
from collections.abc import Collection

MOST = 10  # different values of such a column
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
FLAWS, EXITS = {"fail", "failed", "crash", "crashed"}, {"exit", "exitcode"}
NAMES = {"state", "status", "done", *FLAWS, *EXITS}
SUCCESS = re.compile(r"finish(ed)?|completed?|succe\w+|pass(ed)?|done|ok|okay|converged")
ENDED = re.compile(r"terminated|ended|exited")  # a success where no other word is one, as in Ray
LOST = re.compile(
    r"(trialstate\.)?(crash|fail|kill|running|prun|pend|wait|stop|error|abort|interr|timeout|cancel|died|div)"
)
"""What did not end where no value is a success."""
YES, NO = {"true", "yes", "y", "t"}, {"false", "no", "n", "f", "none"}
NUMBER, ZERO, FLAG = (re.compile(pattern) for pattern in (r"[+-]?[\d.:]+", r"0+(\.0*)?(:0)?", r"[01](\.0*)?"))


def lost_values(column: str, values: Collection[str]) -> set[str]:
    """The values that say that a run did not end; "" is a missing one. None in a column of something else.

    Where one value is a word for success, every other value is lost; likewise for flags and exit codes. Other numbers,
    and codes such as those of US states, are something else.
    """
    words, held = list(map(str.lower, WORD.findall(column))), {*values} - {""}
    is_flaw, is_exit = bool(FLAWS & {*words}), bool(EXITS & {*words})
    are_codes = "state" in words and all(re.fullmatch("[A-Z]{2}", value) for value in held)
    if not NAMES & {*words} or not held or are_codes or len(values) > MOST:
        return set()
    if all(map(NUMBER.fullmatch, held)):
        is_code = is_exit and words[-1] in ("code", "status", *EXITS) and any(map(ZERO.fullmatch, held))
        is_flag = all(map(FLAG.fullmatch, held)) and (is_flaw or "done" in words)
        good = {value for value in held if bool(ZERO.fullmatch(value)) == (is_code or is_flaw)}
        if not is_code and not is_flag:
            return set()
    elif {value.lower() for value in held} <= YES | NO:
        good = held if is_exit else {value for value in held if (value.lower() in NO) == is_flaw}
    else:
        good = _said(SUCCESS, held) or _said(ENDED, held)
        if not good and not is_flaw:
            return {value for value in held if LOST.match(value.lower())}
        good |= {value for value in held if value.lower() in NO} if is_flaw else set()
    return {*values} - good - ({""} if is_flaw or not good else set())


def _said(meaning: re.Pattern[str], values: Collection[str]) -> set[str]:
    """The values of which every word has this meaning, but for Optuna's prefix."""
    parts = {value: re.findall(r"[a-z]+", value.lower().removeprefix("trialstate.")) for value in values}
    return {value for value, words in parts.items() if words and all(map(meaning.fullmatch, words))}
