"""What a study found, before any question is asked of it: names, values, means and comparisons."""

from analysis.findings.findings import NO_PAGE, Findings, Page, analyze, analyze_each

__all__ = ["NO_PAGE", "Findings", "Page", "analyze", "analyze_each"]
