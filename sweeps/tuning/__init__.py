"""The search for the hyper-parameters of each variant: trials, their result in tuned.yaml, and how it is read."""
