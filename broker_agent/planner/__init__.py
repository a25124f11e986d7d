"""What an agent decides, without a socket, a file or a clock.

`planner` turns events into actions (`events`), with the help of what should be (`intent`), what is
(`ownership`), which store call is next (`schedule`), what to log (`journal`) and to answer (`status`).
"""
