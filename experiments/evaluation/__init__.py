"""What a run measures besides loss and accuracy, with trained weights that do not change."""
