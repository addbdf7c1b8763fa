"""What the recorder sees inside engines: cases, and the engines."""
