"""A study's pages in Weights & Biases: a saved workspace and a report, made from the same document as `report.html`.

`publish` starts the process `upload`, which saves the `pages` on the server. They need the extra "wandb".
"""
