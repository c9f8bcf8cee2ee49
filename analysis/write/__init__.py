"""Documents, and how they are written: HTML, Markdown, LaTeX, CSV."""
