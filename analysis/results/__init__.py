"""What all answers of a report share: the variants' names, their means, and how verdicts are reached.

`policy` says how verdicts are reached, makes every comparison and compares every pair; `variants` names the variants.
Then come the questions: `means`, `factors`, `trends`, `profiles`, `images`, `training`, `conduct` and `tuning`.
`study_results` bundles the answers for one study and checks published claims; `across` compares several such bundles.
"""
