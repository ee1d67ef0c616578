-- The end of an attempt: reports, heartbeats, expired leases. Every statement is fenced by (job, worker, attempt).
--
-- Reports wait for row locks; heartbeats, the watchdog and operators' bulk changes skip locked rows instead. So no two of
-- them can wait for each other in a circle.
--
-- `(status = 'RUNNING') IS TRUE` is a guard that no index serves. The planner's statistics are mostly from a moment when nothing ran:
-- by them it would rather read all the running jobs off jobs_status than look up the few that it is told of.

-- name: JobComplete :many
-- RUNNING to COMPLETED. What is missing from the answer was stale. Finds rows by primary key.
WITH completed AS (
  UPDATE jobs
  SET status = 'COMPLETED',
      finished_at = coalesce(sqlc.narg('now')::timestamptz, now()),
      lease_until = NULL,
      unique_held = jobs.unique_held AND jobs.unique_until IS NOT NULL
  FROM (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@worker_ids::uuid[]) AS worker_id, unnest(@attempts::integer[]) AS attempt
  ) AS report
  WHERE jobs.id = report.id AND jobs.worker_id = report.worker_id AND jobs.attempts = report.attempt
    AND (jobs.status = 'RUNNING') IS TRUE
  RETURNING jobs.id, jobs.attempts, jobs.topic,
    extract(epoch FROM jobs.finished_at - jobs.started_at)::double precision AS ran
)
SELECT completed.topic, array_agg(completed.id)::uuid[] AS ids, array_agg(completed.attempts)::integer[] AS attempts,
  array_agg(completed.ran)::double precision[] AS ran
FROM completed
GROUP BY completed.topic;

-- name: JobFail :many
-- RUNNING to RETRYING, or to DEAD_LETTERED when the attempts are spent or @discards says so, or to CANCELED when that was asked
-- for. The wait is @retry_afters where given, else the job's backoff. Finds rows by primary key.
-- nullable elements: retry_afters
UPDATE jobs
SET status = job_verdict(jobs.cancel_requested_at, jobs.attempts - jobs.attempts_forgiven, jobs.max_attempts, report.discard),
    finished_at = CASE
      job_verdict(jobs.cancel_requested_at, jobs.attempts - jobs.attempts_forgiven, jobs.max_attempts, report.discard)
      WHEN 'RETRYING' THEN NULL ELSE coalesce(sqlc.narg('now')::timestamptz, now()) END,
    next_run_at = coalesce(sqlc.narg('now')::timestamptz, now()) + coalesce(report.retry_after, job_retry_delay(
      jobs.backoff_kind, jobs.backoff_base, jobs.backoff_cap, jobs.backoff_jitter,
      jobs.attempts - jobs.attempts_forgiven, random())),
    lease_until = NULL,
    unique_held = jobs.unique_held AND (jobs.unique_until IS NOT NULL OR 'RETRYING' =
      job_verdict(jobs.cancel_requested_at, jobs.attempts - jobs.attempts_forgiven, jobs.max_attempts, report.discard)),
    last_error = report.error,
    failures = job_failures_append(jobs.failures, jobs.attempts, jobs.worker_id, jobs.started_at,
      coalesce(sqlc.narg('now')::timestamptz, now()), report.error)
FROM (
  SELECT unnest(@ids::uuid[]) AS id, unnest(@worker_ids::uuid[]) AS worker_id, unnest(@attempts::integer[]) AS attempt,
    unnest(@errors::text[]) AS error, unnest(@discards::boolean[]) AS discard,
    unnest(@retry_afters::interval[]) AS retry_after
) AS report
WHERE jobs.id = report.id AND jobs.worker_id = report.worker_id AND jobs.attempts = report.attempt
  AND (jobs.status = 'RUNNING') IS TRUE
RETURNING jobs.id, jobs.attempts, jobs.topic, jobs.status,
  extract(epoch FROM coalesce(sqlc.narg('now')::timestamptz, now()) - jobs.started_at)::double precision AS ran;

-- name: JobSnooze :many
-- RUNNING back to PENDING at @untils, or @delays from now, or at once; the attempt is forgiven. A job that somebody wants
-- canceled is CANCELED instead. Finds rows by primary key.
-- nullable elements: untils, delays
UPDATE jobs
SET status = CASE WHEN jobs.cancel_requested_at IS NULL THEN 'PENDING' ELSE 'CANCELED' END::job_status,
    finished_at = CASE WHEN jobs.cancel_requested_at IS NULL THEN NULL ELSE coalesce(sqlc.narg('now')::timestamptz, now()) END,
    next_run_at = report.next_run_at,
    ready = jobs.cancel_requested_at IS NULL AND report.next_run_at <= coalesce(sqlc.narg('now')::timestamptz, now()),
    lease_until = NULL,
    unique_held = jobs.unique_held AND (jobs.cancel_requested_at IS NULL OR jobs.unique_until IS NOT NULL),
    attempts_forgiven = jobs.attempts_forgiven + 1
FROM (
  SELECT given.id, given.worker_id, given.attempt,
    greatest(given.until, coalesce(sqlc.narg('now')::timestamptz, now()) + coalesce(given.delay, interval '0')) AS next_run_at
  FROM (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@worker_ids::uuid[]) AS worker_id, unnest(@attempts::integer[]) AS attempt,
      unnest(@untils::timestamptz[]) AS until, unnest(@delays::interval[]) AS delay
  ) AS given
) AS report
WHERE jobs.id = report.id AND jobs.worker_id = report.worker_id AND jobs.attempts = report.attempt
  AND (jobs.status = 'RUNNING') IS TRUE
RETURNING jobs.id, jobs.attempts, jobs.topic, jobs.ready;

-- name: JobHeartbeat :many
-- Renews the leases of what the worker still holds, and answers with all of that; what is missing from the answer is lost. Rows that a report
-- is ending right now are skipped, not lost. lease_until is in no index, so the update is HOT.
WITH held AS (
  SELECT job.id, job.attempts, job.cancel_requested_at
  FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::integer[]) AS attempt) AS beat
  JOIN jobs AS job ON job.id = beat.id AND job.attempts = beat.attempt
    AND job.worker_id = @worker_id::uuid AND (job.status = 'RUNNING') IS TRUE
), lockable AS (
  SELECT job.id
  FROM held
  JOIN jobs AS job ON job.id = held.id AND job.attempts = held.attempts AND (job.status = 'RUNNING') IS TRUE
  FOR UPDATE OF job SKIP LOCKED
), renewed AS (
  UPDATE jobs
  SET lease_until = coalesce(sqlc.narg('now')::timestamptz, now()) + coalesce(
    jobs.lease, (@topic_leases::jsonb ->> jobs.topic)::interval, @default_lease::interval)
  FROM lockable
  WHERE jobs.id = lockable.id
)
SELECT held.id, held.attempts, (held.cancel_requested_at IS NOT NULL)::boolean AS cancel_requested FROM held;

-- name: JobReapExpired :many
-- The report that a silent worker did not live to make: expired leases go the way of JobFail. Bounded; SKIP LOCKED lets replicas
-- share the work. Reads the RUNNING part of jobs_status.
UPDATE jobs
SET status = job_verdict(jobs.cancel_requested_at, jobs.attempts - jobs.attempts_forgiven, jobs.max_attempts, false),
    finished_at = CASE job_verdict(jobs.cancel_requested_at, jobs.attempts - jobs.attempts_forgiven, jobs.max_attempts, false)
      WHEN 'RETRYING' THEN NULL ELSE coalesce(sqlc.narg('now')::timestamptz, now()) END,
    next_run_at = coalesce(sqlc.narg('now')::timestamptz, now()) + job_retry_delay(
      jobs.backoff_kind, jobs.backoff_base, jobs.backoff_cap, jobs.backoff_jitter,
      jobs.attempts - jobs.attempts_forgiven, random()),
    lease_until = NULL,
    unique_held = jobs.unique_held AND (jobs.unique_until IS NOT NULL OR 'RETRYING' =
      job_verdict(jobs.cancel_requested_at, jobs.attempts - jobs.attempts_forgiven, jobs.max_attempts, false)),
    last_error = 'worker lease expired',
    failures = job_failures_append(jobs.failures, jobs.attempts, jobs.worker_id, jobs.started_at,
      coalesce(sqlc.narg('now')::timestamptz, now()), 'worker lease expired')
WHERE jobs.id = ANY(ARRAY(
  SELECT expired.id
  FROM jobs AS expired
  WHERE expired.status = 'RUNNING' AND expired.lease_until < coalesce(sqlc.narg('now')::timestamptz, now())
  LIMIT @batch_size::integer
  FOR UPDATE SKIP LOCKED
))
RETURNING jobs.id, jobs.attempts, jobs.topic, jobs.status, jobs.worker_id;
