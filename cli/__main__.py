"""`python -m sharedroutes.cli`: the same as the command `sharedroutes`."""

from .main import main

main()
