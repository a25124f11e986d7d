"""What a broker is in its group: a master, a slave, or one whose role is elected."""
