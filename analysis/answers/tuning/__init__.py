"""How the settings of each variant were tuned."""
