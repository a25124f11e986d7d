"""What spark-submit runs: `spark-submit --py-files sharedroutes.zip pipeline_submit.py ingest ...`."""

from sharedroutes.cli.pipeline.group import pipeline

pipeline(prog_name="pipeline_submit.py")
