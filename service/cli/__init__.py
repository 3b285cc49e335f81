"""What a person starts: the command line, the demo, and files of ratings."""
