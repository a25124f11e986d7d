"""The page at `/`: what a process does and what its registry holds, for people; needs jinja2."""
