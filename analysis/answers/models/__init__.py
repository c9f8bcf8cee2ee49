"""What the trained models look like inside."""
