"""A study's workspace and report in Weights & Biases. They need the extra "wandb"."""
