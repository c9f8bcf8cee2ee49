"""The pool of worker processes that trains the runs of the queue, and its progress display."""
