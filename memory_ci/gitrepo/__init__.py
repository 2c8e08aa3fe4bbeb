"""Everything that runs git: as a subprocess, and in `writer` with GitPython."""
