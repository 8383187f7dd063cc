"""The statistic names of Hadoop's manifest committer that this committer also reports.

Source: Hadoop ``ManifestCommitterStatisticNames``.
"""

COMMIT_JOB = "committer_commit_job"
SETUP = "job_stage_setup"
LOAD_MANIFESTS = "job_stage_load_manifests"
CREATE_DIRECTORIES = "job_stage_create_target_dirs"
RENAME_FILES = "job_stage_rename_files"
VALIDATE = "job_stage_optional_validate_output"
SAVE_SUCCESS = "job_stage_save_success_marker"
CLEANUP = "job_stage_cleanup"
ABORT = "job_stage_abort"

TASK_SETUP = "task_stage_setup"
TASK_COMMIT = "task_stage_commit"
TASK_FILES = "committer_task_file_count"
TASK_BYTES = "committer_task_file_size"
TASK_DIRECTORIES = "committer_task_directory_count"

FILES_COMMITTED = "committer_files_committed"
BYTES_COMMITTED = "committer_bytes_committed"
STORE_IO_THROTTLED = "store_io_throttled"
STORE_IO_RETRY = "store_io_retry"
COMMIT_FILE_RENAME = "commit_file_rename"
RENAME_RECOVERED = "commit_file_rename_recovered"

# Stages that Hadoop's committer does not have.
FIND_JOB = "job_stage_find_job"
CONNECT_RAY = "job_stage_connect_ray"
START_WORKERS = "job_stage_start_workers"
PREFLIGHT = "job_stage_preflight"
SAVE_RECORD = "job_stage_save_commit_record"
REMOVE_REPLACED = "job_stage_remove_replaced_files"
SYNC = "job_stage_sync_to_disk"
COMMIT_POINT = "job_stage_commit_point"

BEFORE_COMMIT = (FIND_JOB, CONNECT_RAY)
"""The stages of a run that come before `COMMIT_JOB`, which is around all others."""
