"""Which rows of a table are of runs that did not end: by the name of a column and its values, whatever wrote them."""

import re
from collections.abc import Collection

MOST = 10  # different values of such a column
FLAWS, CODES = {"fail", "failed", "crash", "crashed"}, {"exit", "exitcode", "code", "status"}
NAMES = {"state", "status", "done", "exit", "exitcode", *FLAWS}
SUCCESS = r"(trialstate\.)?((finish(ed)?|completed?|succe\w+|pass(ed)?|done|ok(ay)?|converged)[^a-z]*)+"
YES, NO, CODE = r"1(\.0*)?|true|yes|[ty]", r"0(\.0*)?|false|none|no?|f", r"0+(\.0*)?(:0)?"
ENDED = r"terminated|ended|exited"  # a success where no other word is one, as in Ray
LOST = (
    rf"(trialstate\.)?(crash|fail|kill|running|prun|pend|wait|stop|error|abort|interr|timeout|cancel|died|div).*|{NO}"
)
"""What did not end where no value is a success."""


def lost_values(column: str, values: Collection[str]) -> set[str]:
    """The values that say that a run did not end; "" is a missing one. None in a column of something else.

    Where one value is a word for success, every other value is lost; likewise for flags and exit codes. Other numbers,
    and codes such as those of US states, are something else.
    """

    def are(pattern: str) -> set[str]:
        return {value for value in values if re.fullmatch(pattern, value.lower())} - {""}

    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", column)]
    held, is_flaw, is_exit = {*values} - {""}, bool(FLAWS & {*words}), bool({"exit", "exitcode"} & {*words})
    is_flag = are(f"{YES}|{NO}") == held and (is_flaw or "done" in words)
    is_known = is_flag or (is_exit and words[-1] in CODES) or are(r"[+-]?[\d.:]+") != held
    states = "state" in words and all(re.fullmatch("[A-Z]{2}", value) for value in held)
    if not NAMES & {*words} or not held or len(values) > MOST or states or not is_known:
        return set()
    good = are(f"{SUCCESS}|{NO if is_flaw else CODE if is_exit else YES}") or are(ENDED)
    if not good and not is_flaw:
        return set() if is_exit else are(LOST)
    return {*values} - good - ({""} if is_flaw else set())
