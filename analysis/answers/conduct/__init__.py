"""How a study was conducted: its runs, looks, changes, code and machines."""
