"""Report: an assessment as one self-contained HTML page with drawings."""
