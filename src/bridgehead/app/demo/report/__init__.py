"""Report: the demo's story as one self-contained HTML page."""
