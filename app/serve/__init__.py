"""The painting as a service: POST /stylize, behind a queue, on one machine or many."""
