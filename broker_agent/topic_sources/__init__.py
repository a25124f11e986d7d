"""Where the topics of a broker come from: its files, the running broker, or the program around the agent."""
