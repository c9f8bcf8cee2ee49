"""What speaks of several studies: their index, the ledger of claims, one table over datasets."""
