-- Jobs as producers and operators see them: submit, look up, cancel, retry, delete, re-prioritise, prune.

-- name: JobInsert :many
-- Stores jobs in the order of the arrays: all of them, or none if an id or a unique key is taken, which is an error. Answers with those
-- that were started. An array after @payloads may be empty if every job has the default: JSON, priority 0, five attempts, now, no worker.
-- What few jobs set travels in one jsonb for each job, NULL if it has none of it:
-- {backoff_kind, backoff_base, backoff_cap, backoff_jitter, timeout, lease, unique_key, unique_period, tags, metadata,
--  schedule_id, scheduled_for}, durations in seconds.
--
-- A job with a worker is due and has a free slot kept for it there: it begins RUNNING, with the granted lease, unless anything waits in
-- @topics_ahead. That would have been claimed first, so then the job waits as well, and the claim decides.
-- nullable elements: run_ats, delays, extras, worker_ids, granted_leases
WITH submission AS (
  SELECT unnest(@ids::uuid[]) AS id, unnest(@topics::text[]) AS topic, unnest(@payloads::bytea[]) AS payload,
    unnest(@content_types::text[]) AS content_type, unnest(@priorities::integer[]) AS priority,
    unnest(@max_attempts::integer[]) AS max_attempts, unnest(@run_ats::timestamptz[]) AS run_at,
    unnest(@delays::interval[]) AS delay, unnest(@extras::jsonb[]) AS extra,
    unnest(@worker_ids::uuid[]) AS worker_id, unnest(@granted_leases::interval[]) AS granted_lease
), due AS (
  SELECT submission.*, coalesce(sqlc.narg('now')::timestamptz, now()) AS submitted_at,
    greatest(submission.run_at, coalesce(sqlc.narg('now')::timestamptz, now()) + coalesce(submission.delay, interval '0'))
      AS next_run_at,
    submission.worker_id IS NOT NULL AND NOT EXISTS (
      SELECT FROM (SELECT unnest(@topics_ahead::text[]) AS topic) AS subscription
      WHERE EXISTS (SELECT FROM jobs AS waiting WHERE waiting.ready AND waiting.topic = subscription.topic)
    ) AS starts
  FROM submission
), stored AS (
  INSERT INTO jobs (
    id, topic, payload, content_type, priority, max_attempts, submitted_at, next_run_at,
    status, ready, attempts, worker_id, started_at, lease_until,
    backoff_kind, backoff_base, backoff_cap, backoff_jitter, timeout, lease,
    unique_key, unique_held, unique_until, tags, metadata, schedule_id, scheduled_for
  )
  SELECT due.id, due.topic, due.payload, coalesce(due.content_type, 'application/json'), coalesce(due.priority, 0),
    coalesce(due.max_attempts, 5), due.submitted_at, due.next_run_at,
    CASE WHEN due.starts THEN 'RUNNING' ELSE 'PENDING' END::job_status,
    NOT due.starts AND due.next_run_at <= due.submitted_at,
    CASE WHEN due.starts THEN 1 ELSE 0 END,
    CASE WHEN due.starts THEN due.worker_id END,
    CASE WHEN due.starts THEN due.submitted_at END,
    CASE WHEN due.starts THEN due.submitted_at + due.granted_lease END,
    (due.extra ->> 'backoff_kind')::backoff_kind,
    (due.extra ->> 'backoff_base')::double precision * interval '1 second',
    (due.extra ->> 'backoff_cap')::double precision * interval '1 second',
    (due.extra ->> 'backoff_jitter')::double precision,
    (due.extra ->> 'timeout')::double precision * interval '1 second',
    (due.extra ->> 'lease')::double precision * interval '1 second',
    due.extra ->> 'unique_key',
    due.extra ->> 'unique_key' IS NOT NULL,
    due.submitted_at + (due.extra ->> 'unique_period')::double precision * interval '1 second',
    CASE WHEN due.extra ? 'tags' THEN ARRAY(SELECT jsonb_array_elements_text(due.extra -> 'tags')) END,
    due.extra -> 'metadata',
    (due.extra ->> 'schedule_id')::uuid,
    to_timestamp((due.extra ->> 'scheduled_for')::double precision)
  FROM due
  RETURNING jobs.id, jobs.started_at
)
SELECT stored.id, stored.started_at::timestamptz AS started_at
FROM stored
WHERE stored.started_at IS NOT NULL;

-- name: JobInsertPlain :exec
-- JobInsert for jobs that are due at once, start nowhere yet and set nothing of what few jobs set: most jobs. The same rows in three
-- quarters of the time that Postgres takes for a single one: JobInsert is slow to set up, for all that it could do.
INSERT INTO jobs (
  id, topic, payload, content_type, priority, max_attempts, submitted_at, next_run_at, status, ready
)
SELECT submission.id, submission.topic, submission.payload, coalesce(submission.content_type, 'application/json'),
  coalesce(submission.priority, 0), coalesce(submission.max_attempts, 5), coalesce(sqlc.narg('now')::timestamptz, now()),
  coalesce(sqlc.narg('now')::timestamptz, now()), 'PENDING', true
FROM (
  SELECT unnest(@ids::uuid[]) AS id, unnest(@topics::text[]) AS topic, unnest(@payloads::bytea[]) AS payload,
    unnest(@content_types::text[]) AS content_type, unnest(@priorities::integer[]) AS priority,
    unnest(@max_attempts::integer[]) AS max_attempts
) AS submission;

-- name: JobInsertOne :exec
-- JobInsertPlain for a single job: without arrays to take apart, a submit that is made alone takes two to four percent less time.
INSERT INTO jobs (
  id, topic, payload, content_type, priority, max_attempts, submitted_at, next_run_at, status, ready
)
VALUES (
  @id, @topic, @payload, @content_type, @priority, @max_attempts, coalesce(sqlc.narg('now')::timestamptz, now()),
  coalesce(sqlc.narg('now')::timestamptz, now()), 'PENDING', true
);

-- name: JobFindTaken :many
-- The jobs that kept submissions out: by id, or by the unique key that they hold. Served by the primary key and jobs_unique_key.
SELECT jobs.id, jobs.topic, jobs.payload, jobs.unique_key, jobs.unique_held
FROM jobs
WHERE jobs.id = ANY(@ids::uuid[])
UNION ALL
SELECT jobs.id, jobs.topic, jobs.payload, jobs.unique_key, jobs.unique_held
FROM (SELECT unnest(@topics::text[]) AS topic, unnest(@unique_keys::text[]) AS unique_key) AS wanted
JOIN jobs ON jobs.topic = wanted.topic AND jobs.unique_key = wanted.unique_key AND jobs.unique_held;

-- name: JobReleaseKeys :execrows
-- Frees unique keys whose period is over. Served by jobs_unique_key.
UPDATE jobs
SET unique_held = false
FROM (SELECT unnest(@topics::text[]) AS topic, unnest(@unique_keys::text[]) AS unique_key) AS wanted
WHERE jobs.topic = wanted.topic AND jobs.unique_key = wanted.unique_key AND jobs.unique_held
  AND jobs.unique_until <= coalesce(sqlc.narg('now')::timestamptz, now());

-- name: JobGet :one
SELECT * FROM jobs WHERE jobs.id = @id;

-- name: JobMatch :many
-- The jobs that a filter chooses, the latest submitted first, from below the cursor @before on. Every filter but @statuses may be NULL. A top-k
-- for each status off jobs_status, merged. Planned anew for each call, so that an id, a schedule or a tag in the filter picks its own index.
SELECT matching.id, matching.seq
FROM (SELECT unnest(@statuses::job_status[]) AS status) AS wanted
CROSS JOIN LATERAL (
  SELECT job.id, job.seq
  FROM jobs AS job
  WHERE job.status = wanted.status AND job.seq < @before::bigint
    AND (sqlc.narg('ids')::uuid[] IS NULL OR job.id = ANY(sqlc.narg('ids')::uuid[]))
    AND (sqlc.narg('topics')::text[] IS NULL OR job.topic = ANY(sqlc.narg('topics')::text[]))
    AND (sqlc.narg('tags')::text[] IS NULL OR job.tags @> sqlc.narg('tags')::text[])
    AND (sqlc.narg('schedule_id')::uuid IS NULL OR job.schedule_id = sqlc.narg('schedule_id')::uuid)
    AND (sqlc.narg('worker_id')::uuid IS NULL
      OR (job.worker_id = sqlc.narg('worker_id')::uuid AND job.status = 'RUNNING'))
    AND (sqlc.narg('error_contains')::text IS NULL
      OR strpos(lower(job.last_error), lower(sqlc.narg('error_contains')::text)) > 0)
    AND (sqlc.narg('submitted_after')::timestamptz IS NULL OR job.submitted_at >= sqlc.narg('submitted_after')::timestamptz)
    AND (sqlc.narg('submitted_before')::timestamptz IS NULL OR job.submitted_at < sqlc.narg('submitted_before')::timestamptz)
    AND (sqlc.narg('min_priority')::integer IS NULL OR job.priority >= sqlc.narg('min_priority')::integer)
    AND (sqlc.narg('max_priority')::integer IS NULL OR job.priority <= sqlc.narg('max_priority')::integer)
    AND (sqlc.narg('other_priority_than')::integer IS NULL OR job.priority <> sqlc.narg('other_priority_than')::integer)
    AND (sqlc.narg('cancel_requested')::boolean IS NULL
      OR (job.cancel_requested_at IS NOT NULL) = sqlc.narg('cancel_requested')::boolean)
    AND (sqlc.narg('payload_contains')::jsonb IS NULL
      OR job_payload_contains(job.payload, sqlc.narg('payload_contains')::jsonb))
  ORDER BY job.seq DESC
  LIMIT @max_rows::integer
) AS matching
ORDER BY matching.seq DESC
LIMIT @max_rows::integer;

-- name: JobScan :one
-- JobMatch for filters that no index serves: it looks at the latest @scanned jobs of each status only, so that it stays quick on any
-- table. `floor` is how far down it has seen everything; NULL: to the end. What matches below it was left for the next call.
-- nullable: floor
WITH seen AS (
  SELECT job.id, job.seq, wanted.status,
    (sqlc.narg('topics')::text[] IS NULL OR job.topic = ANY(sqlc.narg('topics')::text[]))
    AND (sqlc.narg('error_contains')::text IS NULL
      OR strpos(lower(job.last_error), lower(sqlc.narg('error_contains')::text)) > 0)
    AND (sqlc.narg('submitted_after')::timestamptz IS NULL OR job.submitted_at >= sqlc.narg('submitted_after')::timestamptz)
    AND (sqlc.narg('submitted_before')::timestamptz IS NULL OR job.submitted_at < sqlc.narg('submitted_before')::timestamptz)
    AND (sqlc.narg('min_priority')::integer IS NULL OR job.priority >= sqlc.narg('min_priority')::integer)
    AND (sqlc.narg('max_priority')::integer IS NULL OR job.priority <= sqlc.narg('max_priority')::integer)
    AND (sqlc.narg('payload_contains')::jsonb IS NULL
      OR job_payload_contains(job.payload, sqlc.narg('payload_contains')::jsonb)) AS matches
  FROM (SELECT unnest(@statuses::job_status[]) AS status) AS wanted
  CROSS JOIN LATERAL (
    SELECT latest.id, latest.seq, latest.topic, latest.last_error, latest.submitted_at, latest.priority, latest.payload
    FROM jobs AS latest
    WHERE latest.status = wanted.status AND latest.seq < @before::bigint
    ORDER BY latest.seq DESC
    LIMIT @scanned::integer
  ) AS job
), bottom AS (
  SELECT max(cut.lowest) AS floor
  FROM (SELECT min(seen.seq) AS lowest FROM seen GROUP BY seen.status HAVING count(*) >= @scanned::integer) AS cut
), found AS (
  SELECT seen.id, seen.seq
  FROM seen
  WHERE seen.matches AND seen.seq >= coalesce((SELECT bottom.floor FROM bottom), 0)
  ORDER BY seen.seq DESC
  LIMIT @max_rows::integer
)
SELECT
  ARRAY(SELECT found.id FROM found ORDER BY found.seq DESC)::uuid[] AS ids,
  ARRAY(SELECT found.seq FROM found ORDER BY found.seq DESC)::bigint[] AS seqs,
  (SELECT bottom.floor FROM bottom)::bigint AS floor;

-- name: JobSummaries :many
-- Jobs for a list, the latest submitted first: all but payload and history.
SELECT jobs.id, jobs.seq, jobs.submitted_at, jobs.next_run_at, jobs.started_at, jobs.finished_at, jobs.lease_until,
  jobs.cancel_requested_at, jobs.status, jobs.priority, jobs.attempts, jobs.attempts_forgiven, jobs.max_attempts,
  jobs.topic, jobs.content_type, jobs.worker_id, jobs.schedule_id, jobs.scheduled_for, jobs.backoff_kind, jobs.backoff_base,
  jobs.backoff_cap, jobs.backoff_jitter, jobs.timeout, jobs.lease, jobs.unique_key, jobs.unique_until, jobs.tags,
  jobs.metadata, jobs.last_error, octet_length(jobs.payload)::bigint AS payload_size
FROM jobs
WHERE jobs.id = ANY(@ids::uuid[])
ORDER BY jobs.seq DESC;

-- name: JobCancel :many
-- Waiting jobs to CANCELED; for running ones the wish is noted and their worker is told. Others are left alone and missing from the answer.
UPDATE jobs
SET status = CASE WHEN jobs.status = 'RUNNING' THEN 'RUNNING' ELSE 'CANCELED' END::job_status,
    finished_at = CASE WHEN jobs.status = 'RUNNING' THEN NULL ELSE coalesce(sqlc.narg('now')::timestamptz, now()) END,
    cancel_requested_at = CASE WHEN jobs.status = 'RUNNING'
      THEN coalesce(jobs.cancel_requested_at, sqlc.narg('now')::timestamptz, now()) END,
    ready = false,
    unique_held = jobs.unique_held AND (jobs.status = 'RUNNING' OR jobs.unique_until IS NOT NULL)
WHERE jobs.id = ANY(ARRAY(
  SELECT job.id
  FROM jobs AS job
  WHERE job.id = ANY(@ids::uuid[]) AND job.status IN ('PENDING', 'RETRYING', 'RUNNING')
  FOR UPDATE SKIP LOCKED
))
RETURNING jobs.id, jobs.attempts, jobs.status, jobs.worker_id;

-- name: JobRetry :many
-- DEAD_LETTERED, CANCELED or RETRYING jobs run now, all earlier attempts forgiven. A unique key that was let go is not taken back.
UPDATE jobs
SET status = 'PENDING',
    ready = true,
    next_run_at = coalesce(sqlc.narg('now')::timestamptz, now()),
    finished_at = NULL,
    cancel_requested_at = NULL,
    attempts_forgiven = jobs.attempts
WHERE jobs.id = ANY(ARRAY(
  SELECT job.id
  FROM jobs AS job
  WHERE job.id = ANY(@ids::uuid[]) AND job.status IN ('DEAD_LETTERED', 'CANCELED', 'RETRYING')
  FOR UPDATE SKIP LOCKED
))
RETURNING jobs.id, jobs.topic;

-- name: JobDelete :many
-- Removes jobs that are not running.
DELETE FROM jobs
WHERE jobs.id = ANY(ARRAY(
  SELECT job.id
  FROM jobs AS job
  WHERE job.id = ANY(@ids::uuid[]) AND job.status <> 'RUNNING'
  FOR UPDATE SKIP LOCKED
))
RETURNING jobs.id;

-- name: JobSetPriority :many
-- Changes the priority of jobs that wait; the next claim goes by it.
UPDATE jobs
SET priority = @priority
WHERE jobs.id = ANY(ARRAY(
  SELECT job.id
  FROM jobs AS job
  WHERE job.id = ANY(@ids::uuid[]) AND job.status IN ('PENDING', 'RETRYING')
  FOR UPDATE SKIP LOCKED
))
RETURNING jobs.id, jobs.topic;

-- name: JobPrune :execrows
-- Removes jobs that finished with @status longer than @keep ago, the oldest first, a bounded number. Keys held for a period keep
-- their job. Served by jobs_finished.
DELETE FROM jobs
WHERE jobs.id = ANY(ARRAY(
  SELECT finished.id
  FROM jobs AS finished
  WHERE finished.status = @status::job_status
    AND finished.finished_at IS NOT NULL
    AND finished.finished_at < coalesce(sqlc.narg('now')::timestamptz, now()) - @keep::interval
    AND NOT (finished.unique_held AND finished.unique_until > coalesce(sqlc.narg('now')::timestamptz, now()))
  ORDER BY finished.finished_at
  LIMIT @batch_size::integer
  FOR UPDATE SKIP LOCKED
));
