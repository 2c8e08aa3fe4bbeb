"""The feature `evaluate`: extraction and retrieval measured on labelled data.

Commands: `eval extraction`, `eval retrieval`, `eval draw`, `eval init`. It reads gold files and
memory, and writes only samples to label. Start reading at `evaluate.evaluate_extraction`,
`labelled_set` and `evaluate_retrieval`.
"""
