"""The only owner of git: all goes by subprocess but commits of memory, which `writer` makes with GitPython."""
