"""`python -m benchmarks.simulation`: see docs/simulation.md."""

from .command import simulate

simulate(prog_name="python -m benchmarks.simulation")
