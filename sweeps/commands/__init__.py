"""The commands of `vit-sweep`, one module each: its arguments, and what it does."""
