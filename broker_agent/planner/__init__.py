"""What an agent decides: pure, the time is passed in."""
