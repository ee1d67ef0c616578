-- Schedules. The scheduler holds the row's lock while it fires, so that changes by hand and other replicas wait or skip.

-- name: ScheduleInsert :one
-- No row: the id or the name is taken.
INSERT INTO schedules (
  id, name, kind, start_at, every, cron, timezone, misfire_policy, misfire_limit, next_run_at, created_at, updated_at,
  topic, payload, content_type, priority, max_attempts, backoff_kind, backoff_base, backoff_cap, backoff_jitter,
  timeout, lease, unique_key, unique_period, tags, metadata
)
VALUES (
  @id, @name, @kind, sqlc.narg('start_at'), sqlc.narg('every'), sqlc.narg('cron'), sqlc.narg('timezone'), @misfire_policy,
  @misfire_limit, sqlc.narg('next_run_at'), coalesce(sqlc.narg('now')::timestamptz, now()),
  coalesce(sqlc.narg('now')::timestamptz, now()),
  @topic, @payload, @content_type, @priority, @max_attempts, sqlc.narg('backoff_kind'), sqlc.narg('backoff_base'),
  sqlc.narg('backoff_cap'), sqlc.narg('backoff_jitter'), sqlc.narg('timeout'), sqlc.narg('lease'), sqlc.narg('unique_key'),
  sqlc.narg('unique_period'), sqlc.narg('tags'), sqlc.narg('metadata')
)
ON CONFLICT DO NOTHING
RETURNING *;

-- name: ScheduleUpdate :one
-- Replaces the definition and the cursor. No row: there is no such schedule.
UPDATE schedules
SET name = @name, kind = @kind, start_at = sqlc.narg('start_at'), every = sqlc.narg('every'), cron = sqlc.narg('cron'),
    timezone = sqlc.narg('timezone'), misfire_policy = @misfire_policy, misfire_limit = @misfire_limit,
    next_run_at = sqlc.narg('next_run_at'), updated_at = coalesce(sqlc.narg('now')::timestamptz, now()),
    topic = @topic, payload = @payload, content_type = @content_type, priority = @priority, max_attempts = @max_attempts,
    backoff_kind = sqlc.narg('backoff_kind'), backoff_base = sqlc.narg('backoff_base'),
    backoff_cap = sqlc.narg('backoff_cap'), backoff_jitter = sqlc.narg('backoff_jitter'), timeout = sqlc.narg('timeout'),
    lease = sqlc.narg('lease'), unique_key = sqlc.narg('unique_key'), unique_period = sqlc.narg('unique_period'),
    tags = sqlc.narg('tags'), metadata = sqlc.narg('metadata')
WHERE schedules.id = @id
RETURNING *;

-- name: ScheduleGet :one
SELECT * FROM schedules WHERE schedules.id = @id;

-- name: ScheduleGetByName :one
SELECT * FROM schedules WHERE schedules.name = @name;

-- name: ScheduleLock :one
-- The schedule, kept from changing until the transaction ends.
SELECT * FROM schedules WHERE schedules.id = @id FOR UPDATE;

-- name: ScheduleList :many
-- A page in the order of the names, after @after.
SELECT * FROM schedules
WHERE schedules.name > @after AND (sqlc.narg('topic')::text IS NULL OR schedules.topic = sqlc.narg('topic')::text)
ORDER BY schedules.name
LIMIT @max_rows::integer;

-- name: ScheduleDue :many
-- Schedules to fire, the longest due first, locked; those that the caller can't read, @set_aside, are left to others. Served by
-- schedules_due; SKIP LOCKED lets replicas share the work.
SELECT * FROM schedules
WHERE NOT schedules.paused AND schedules.next_run_at <= coalesce(sqlc.narg('now')::timestamptz, now())
  AND schedules.id <> ALL(@set_aside::uuid[])
ORDER BY schedules.next_run_at
LIMIT @batch_size::integer
FOR UPDATE SKIP LOCKED;

-- name: ScheduleAdvance :execrows
-- Moves the cursor, if it still is where the caller saw it.
UPDATE schedules
SET next_run_at = sqlc.narg('next_run_at'), last_fired_at = coalesce(sqlc.narg('last_fired_at'), schedules.last_fired_at)
WHERE schedules.id = @id AND schedules.next_run_at = @seen_next_run_at::timestamptz;

-- name: SchedulePause :execrows
UPDATE schedules
SET paused = true, updated_at = coalesce(sqlc.narg('now')::timestamptz, now())
WHERE schedules.id = @id;

-- name: ScheduleResume :execrows
-- Goes on from @next_run_at, which the caller computed under the row's lock.
UPDATE schedules
SET paused = false, next_run_at = sqlc.narg('next_run_at'), updated_at = coalesce(sqlc.narg('now')::timestamptz, now())
WHERE schedules.id = @id;

-- name: ScheduleDelete :execrows
DELETE FROM schedules WHERE schedules.id = @id;

-- name: ScheduleFires :many
-- The jobs of a schedule, the latest first, below the cursor @before. Served by jobs_schedule.
SELECT jobs.id, jobs.seq FROM jobs
WHERE jobs.schedule_id = @schedule_id::uuid AND jobs.seq < @before::bigint
ORDER BY jobs.seq DESC
LIMIT @max_rows::integer;

-- name: DatabaseNow :one
-- The one clock, for what has to be computed outside of SQL.
SELECT coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now;
