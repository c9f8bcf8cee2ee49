"""Mirror runs to Weights & Biases, as a function of their records. For runs, only this package imports wandb.

A process of its own, `send`, reads the records of a folder and sends what W&B lacks of them: while a command trains the
runs (`mirror`, which starts it), or afterwards (`sync`). So no fault of W&B reaches a run.
"""
