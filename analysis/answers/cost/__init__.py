"""What each variant costs."""
