"""Mirror runs to Weights & Biases, as a function of their records. For runs, only this package imports wandb.

`sender` reads the records of a folder and sends what W&B lacks of them. It works in a `process` of its own, which `mirror`
starts: beside a command that trains runs, or afterwards for `vit-sweep sync`. So no fault of W&B reaches a run.
"""
