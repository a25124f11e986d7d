"""A name server front: speaks RocketMQ's protocol from the shared table, any number of them as one."""
