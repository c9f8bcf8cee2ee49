"""Which rows of a table are of runs that did not end: by the name of a column and its values, whatever wrote them."""

import re
from collections.abc import Collection

MOST = 10  # different values of such a column
FLAWS, EXITS = {"fail", "failed", "crash", "crashed"}, {"exit", "exitcode", "returncode"}
NAMES = {"state", "status", "done", *EXITS, *FLAWS}
SUCCESS = r"(trialstate\.)?((finish(ed)?|completed?|succe\w+|pass(ed)?|done|ok(ay)?|converged)[^a-z]*)+"
YES, NO, CODE = r"1(\.0*)?|true|yes|[ty]", r"0(\.0*)?|false|none|no?|f", r"0+(\.0*)?(:0)?"
OVER = r"terminated|ended|exited"  # a success where no other word is one, as in Ray
FLAW = r"(crash|fail|kill|abort|interr|timeout|cancel|died|diverg|oom).*"
LOST = rf"(trialstate\.)?({FLAW}|(error|running|prun|pend|wait|stop).*|{NO})"
"""What did not end where no value is a success."""


def lost_values(column: str, values: Collection[str]) -> set[str]:
    """The values that say that a run did not end; "" is a missing one. None in a column of something else.

    Where one value is a word for success, every other value is lost; likewise for flags and exit codes. Other numbers,
    and codes such as those of US states, are something else. Under a name that says nothing of a state, flags count if
    it is a word for success or failure (`completed`, `diverged`), and words if each of them is one, and both occur.
    """

    def are(pattern: str) -> set[str]:
        return {value for value in values if re.fullmatch(pattern, value.lower())} - {""}

    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", column)]
    held, is_flaw = {*values} - {""}, bool(FLAWS & {*words})
    is_exit = bool(EXITS & {*words}) or words[-2:] == ["return", "code"]
    is_flag = are(f"{YES}|{NO}") == held and (is_flaw or "done" in words)
    is_known = is_flag or (is_exit and words[-1] in ("code", "status", *EXITS)) or are(r"[+-]?[\d.:]+") != held
    states = "state" in words and all(re.fullmatch("[A-Z]{2}", value) for value in held)
    if not NAMES & {*words} and not is_exit:
        if {"error", "exception"} & {*words} and "" in values and all(re.search("[A-Za-z]", value) for value in held):
            return held - are(NO)  # messages of the rows that have one
        yes, no, done, lost = map(are, (YES, NO, SUCCESS, f"{FLAW}|error.*"))
        if yes and no and yes | no == held:
            is_flaw = any(re.fullmatch(FLAW, word) for word in words)
            is_done = any(re.fullmatch(r"finish(ed)?|completed?|succe\w+", word) for word in words)
            return yes if is_flaw else {*values} - yes if is_done else set()
        return {*values} - done if done and lost and done | lost == held else set()
    if not held or len(values) > MOST or states or not is_known:
        return set()
    good = are(f"{SUCCESS}|{NO if is_flaw else CODE if is_exit else YES}") or are(OVER)
    if not good and not is_flaw:
        return set() if is_exit else are(LOST)
    return {*values} - good - ({""} if is_flaw else set())
