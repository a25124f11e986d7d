"""`python -m sharedroutes.cli.pipeline`: the pipeline without the rest of the command line."""

from .group import pipeline

pipeline(prog_name="python -m sharedroutes.cli.pipeline")
