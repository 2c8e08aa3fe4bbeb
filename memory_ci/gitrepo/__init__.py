"""The only package that runs git. Everything is a subprocess, but `writer` makes commits with GitPython."""
