"""What people run: the web demo, the batch command line, training and evaluation."""
