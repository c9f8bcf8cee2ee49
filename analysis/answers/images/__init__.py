"""What the predictions for single test images show."""
