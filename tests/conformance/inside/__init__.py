"""What runs in the environment of an engine, with this folder on the path and no module of this project."""
