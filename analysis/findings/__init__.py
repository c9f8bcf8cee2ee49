"""What a study found, before any question is asked of it: names, values, means and comparisons."""

from analysis.findings.findings import Findings, analyze, analyze_each

__all__ = ["Findings", "analyze", "analyze_each"]
