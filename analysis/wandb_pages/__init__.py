"""A study's workspace in Weights & Biases. It needs the extra "wandb"."""
