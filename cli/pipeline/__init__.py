"""`sharedroutes pipeline`: the registry's history on Spark."""
