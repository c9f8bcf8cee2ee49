"""The tables of a report: results in, tables out."""
