"""What every benchmark is built of: figures, the command line, processes, hosts, tables, peers."""
