"""What a study's runs say: one file for each question, with a small frozen type and the function that computes it. No wording.

`policy` says how verdicts are reached and makes every comparison; `variants` names the variants. Then come the questions:
`means`, `comparisons`, `factors`, `published`, `trends`, `profiles`, `images`, `curves`, `cost`, `conduct` and `tuning`.
`study_results` bundles the answers for one study; `two_studies` and `across` compare several such bundles.
"""
