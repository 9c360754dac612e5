"""How long a test waits for what should come."""

# Seconds. What is waited for comes in a fraction of one on a quiet machine; on one that does the
# work of many at once it may take minutes, and only a test that hangs should end by it.
PATIENCE = 600
