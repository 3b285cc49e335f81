"""The command line, the demo, and readers of files of ratings."""
