"""The questions of a report, one file each: what it computes, says and shows. `report.ORDER` lists them.

Questions never import each other. What two of them share is in `findings` or `words`.
"""
