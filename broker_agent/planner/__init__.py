"""What an agent decides, without a socket, a file or a clock.

`planner` turns events into actions (`events`), with the help of what should be (`intent`), what is
(`ownership`), when to act (`pace`), what to log (`journal`) and what to answer (`status`).
"""
