"""Mirror runs to Weights & Biases, as a function of their records. For runs, only this package imports wandb.

`sender` reads the records of a folder and sends what W&B lacks of them. The command is `vit-sweep sync`, once or with
`--follow`, which `mirror` starts beside a command that trains runs. So no fault of W&B reaches a run.
"""
