"""`python -m sharedroutes`: the same as the command `sharedroutes`."""

from .cli.main import main

main()
