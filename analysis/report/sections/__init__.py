"""The sections of a report: each from the small types that it shows, with the wording in `report/templates`."""
