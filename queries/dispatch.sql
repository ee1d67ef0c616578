-- Claiming: how jobs get from the table to workers.

-- name: JobClaim :many
-- Gives ready jobs of @topics to workers: one statement is claim, lease and attempt. Each entry of @slots is a free slot and
-- names its worker, so one claim serves many workers. Strict priority over all the topics, FIFO among equals.
--
-- `shares` reads the head of each topic off jobs_ready without locking and decides how many jobs each topic contributes;
-- `picked` locks just that many, so topics that contribute nothing are not locked. SKIP LOCKED keeps concurrent claims
-- apart. Both walk the index in its own order: the cost is that of the batch, however many jobs wait. The ids pass through an
-- array because the planner takes that for a few rows and looks them up by key; of a LIMIT that it can't see it expects a tenth of the table.
WITH shares AS (
  SELECT head.topic, count(*) AS jobs
  FROM (
    SELECT waiting.topic, waiting.priority, waiting.seq
    FROM (SELECT unnest(@topics::text[]) AS topic) AS subscription
    CROSS JOIN LATERAL (
      SELECT candidate.topic, candidate.priority, candidate.seq
      FROM jobs AS candidate
      WHERE candidate.ready AND candidate.topic = subscription.topic
      ORDER BY candidate.priority DESC, candidate.seq
      LIMIT cardinality(@slots::uuid[])
    ) AS waiting
    ORDER BY waiting.priority DESC, waiting.seq
    LIMIT cardinality(@slots::uuid[])
  ) AS head
  GROUP BY head.topic
), picked AS (
  SELECT locked.place, row_number() OVER () AS slot
  FROM (
    SELECT unnest(ARRAY(
      SELECT job.place
      FROM shares
      CROSS JOIN LATERAL (
        SELECT candidate.ctid AS place, candidate.priority, candidate.seq
        FROM jobs AS candidate
        WHERE candidate.ready AND candidate.topic = shares.topic
        ORDER BY candidate.priority DESC, candidate.seq
        LIMIT shares.jobs
        FOR UPDATE SKIP LOCKED
      ) AS job
      ORDER BY job.priority DESC, job.seq
    )) AS place
  ) AS locked
)
UPDATE jobs
SET status = 'RUNNING',
    ready = false,
    attempts = jobs.attempts + 1,
    worker_id = (@slots::uuid[])[picked.slot],
    started_at = coalesce(sqlc.narg('now')::timestamptz, now()),
    lease_until = coalesce(sqlc.narg('now')::timestamptz, now()) + coalesce(
      jobs.lease, (@topic_leases::jsonb ->> jobs.topic)::interval, @default_lease::interval)
FROM picked
WHERE jobs.ctid = picked.place
RETURNING jobs.id, jobs.worker_id, jobs.attempts, jobs.attempts_forgiven, jobs.topic, jobs.payload, jobs.content_type,
  jobs.priority, jobs.max_attempts, jobs.timeout, jobs.tags, jobs.metadata, jobs.submitted_at, jobs.schedule_id,
  jobs.scheduled_for, jobs.seq,
  (jobs.lease_until - jobs.started_at)::interval AS granted_lease,
  (jobs.started_at - jobs.next_run_at)::interval AS waited;

-- name: JobPromoteDue :many
-- Moves jobs whose time has come into the claim's index, the longest due first, and names their topics.
-- Walks jobs_later from its start; SKIP LOCKED lets replicas share the work.
WITH promoted AS (
  UPDATE jobs
  SET ready = true
  WHERE jobs.id = ANY(ARRAY(
    SELECT later.id
    FROM jobs AS later
    WHERE NOT later.ready AND later.status IN ('PENDING', 'RETRYING')
      AND later.next_run_at <= coalesce(sqlc.narg('now')::timestamptz, now())
    ORDER BY later.next_run_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
  ))
  RETURNING jobs.topic
)
SELECT promoted.topic, count(*) AS jobs FROM promoted GROUP BY promoted.topic;

-- name: DispatchProbe :one
-- What an idle server asks twice a second, in one statement: which of @topics have something to claim, and in how many
-- seconds the next job and the next schedule fall due (negative: overdue; NULL: none). Index heads only.
-- nullable: next_job_in, next_schedule_in
SELECT
  ARRAY(
    SELECT subscription.topic
    FROM (SELECT unnest(@topics::text[]) AS topic) AS subscription
    WHERE EXISTS (SELECT FROM jobs AS waiting WHERE waiting.ready AND waiting.topic = subscription.topic)
  )::text[] AS ready_topics,
  (
    SELECT extract(epoch FROM min(later.next_run_at) - coalesce(sqlc.narg('now')::timestamptz, now()))
    FROM jobs AS later
    WHERE NOT later.ready AND later.status IN ('PENDING', 'RETRYING')
  )::double precision AS next_job_in,
  (
    SELECT extract(epoch FROM min(schedules.next_run_at) - coalesce(sqlc.narg('now')::timestamptz, now()))
    FROM schedules
    WHERE NOT schedules.paused AND schedules.next_run_at IS NOT NULL
  )::double precision AS next_schedule_in;

-- name: JobsHeld :many
-- What workers hold by the database's word. Reads the RUNNING part of jobs_status, which is as long as the workers have slots.
SELECT jobs.id, jobs.attempts, jobs.worker_id, jobs.topic
FROM jobs
WHERE jobs.status = 'RUNNING' AND jobs.worker_id = ANY(@worker_ids::uuid[]);
