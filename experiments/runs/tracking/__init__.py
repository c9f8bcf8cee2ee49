"""Mirror runs to Weights & Biases, as a function of their records. For runs, only this package imports wandb.

A run in training appends its epochs to a file, `epoch_log`. A process of its own, `process`, reads these files and the
records and sends them with wandb; the command starts and ends it, `mirror`. So no fault of W&B reaches a run. What W&B
lost is sent again from the records, `sync`.
"""
