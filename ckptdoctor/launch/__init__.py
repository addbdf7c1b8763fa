"""The launch line of a server as text: words, options, files that hold it. Knows no draft."""
