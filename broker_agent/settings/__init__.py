"""The settings of the agent process: from flags, environment and agent.toml to a checked configuration."""
