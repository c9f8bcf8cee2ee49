"""Few-shot accuracy, other image sizes, shifted and permuted images."""
