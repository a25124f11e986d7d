"""What an agent knows of RocketMQ: the files that a broker has, and the requests that it answers."""
