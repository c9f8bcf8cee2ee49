"""A study's pages in Weights & Biases: a saved workspace and a report, made from the same document as `report.html`.

`collect` takes their `content` from the document, `workspace` and `report` lay it out, `specification` writes both as
JSON. `publish` starts the process `upload`, which saves them on the server. They need the extra "wandb".
"""
