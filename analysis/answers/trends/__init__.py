"""How differences between variants change with training length or the number of images."""
