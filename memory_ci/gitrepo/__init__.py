"""The only owner of git: reads by subprocess, writes with GitPython (`writer`, imported lazily)."""
