"""From results to a document, and from a document to files. The wording of a report is here and in `templates`."""
