"""Published claims and tables beside the results of a study, and the ledger of claims over studies."""
