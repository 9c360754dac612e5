"""The static page that paints without a server: its sources, and what builds and serves it."""
