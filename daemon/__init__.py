"""What every process that runs for ever needs: HTTP pages, logs, threads, word to systemd."""
