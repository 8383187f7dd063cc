"""The stages of the protocol, by Hadoop's names: one module and one public function a stage.

What several stages need is in the folders: `checks` of the preflight, `old_data`, `other_jobs`, the
`run` of a commit, and the `turns` of jobs in a table with a log.
"""
