-- The comment at the top becomes the docstring
-- of the module.

-- name: JobGet :one
-- A comment becomes the docstring, whether it stands below the name
-- or above it. A "quote" and a back\slash survive.
SELECT * FROM jobs WHERE id = @id;

-- Every row class of the claim is its own: the columns are not those of the table.
-- name: JobClaim :many
WITH share AS (
  SELECT unnest(@topics::text[]) AS topic,
         unnest(@limits::int[]) AS size,
         generate_subscripts(@topics::text[], 1) AS slot
), picked AS (
  SELECT job.id, share.slot
  FROM share
  CROSS JOIN LATERAL (
    SELECT jobs.id FROM jobs
    WHERE jobs.topic = share.topic AND jobs.status = 'PENDING'
    ORDER BY jobs.priority DESC
    LIMIT share.size
    FOR UPDATE SKIP LOCKED
  ) AS job
), claimed AS (
  UPDATE jobs
  SET status = 'RUNNING', was = jobs.status, attempts = jobs.attempts + 1,
      worker_id = (@worker_ids::uuid[])[picked.slot],
      lease_until = coalesce(sqlc.narg('now')::timestamptz, now()) + @lease::interval
  FROM picked
  WHERE jobs.id = picked.id
  RETURNING jobs.id, jobs.topic, jobs.status, jobs.was, jobs.attempts,
            jobs.lease_until::timestamptz AS lease_until,
            jobs.worker_id::uuid AS worker_id,
            picked.slot::int AS slot
)
SELECT * FROM claimed;

-- name: JobRelease :many
-- The columns of the table, through a CTE: the class of the table.
WITH released AS (
  UPDATE jobs SET status = 'PENDING', worker_id = NULL, lease_until = NULL
  WHERE jobs.worker_id = @worker_id::uuid
  RETURNING jobs.*
)
SELECT * FROM released ORDER BY id;

-- name: JobInsertMany :many
-- nullable elements: run_ats
INSERT INTO jobs (id, topic, payload, run_at)
SELECT input.id, input.topic, input.payload, coalesce(input.run_at, now())
FROM (
  SELECT unnest(@ids::uuid[]) AS id,
         unnest(@topics::text[]) AS topic,
         unnest(@payloads::bytea[]) AS payload,
         unnest(@run_ats::timestamptz[]) AS run_at
) AS input
ON CONFLICT DO NOTHING
RETURNING id;

-- name: JobBeat :execrows
UPDATE jobs
SET lease_until = coalesce(sqlc.narg('now')::timestamptz, now()) + @lease::interval
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::int[]) AS attempt) AS beat
WHERE jobs.id = beat.id AND jobs.attempts = beat.attempt AND jobs.worker_id = @worker_id;

-- name: JobCopy :execrows
INSERT INTO jobs (id, topic) SELECT gen_random_uuid(), topic FROM jobs;

-- name: JobDelete :exec
DELETE FROM jobs WHERE id = ANY(@ids::uuid[]);

-- name: JobList :many
SELECT id, topic, run_at FROM jobs
WHERE (sqlc.narg('topic')::text IS NULL OR topic = sqlc.narg('topic')::text)
  AND (sqlc.narg('statuses')::job_status[] IS NULL OR status = ANY(sqlc.narg('statuses')::job_status[]))
  AND run_at <= sqlc.arg(until)
ORDER BY id
LIMIT @page_size;

-- name: JobStatusOf :one
SELECT status FROM jobs WHERE id = @id;

-- name: JobStatusesBefore :many
SELECT was FROM jobs ORDER BY id;

-- name: JobStatusesInUse :one
SELECT array_agg(DISTINCT status ORDER BY status)::job_status[] AS statuses FROM jobs;

-- name: JobTagsByTopic :many
-- nullable elements: tags
-- nullable: oldest
SELECT topic, count(*) AS count, min(run_at)::timestamptz AS oldest,
       array_agg(tags[1])::text[] AS tags,
       ARRAY(SELECT jobs.was FROM jobs)::job_status[] AS ever
FROM jobs GROUP BY topic;

-- name: JobEcho :one
-- Names that Python keeps for itself, a name that comes twice, NULL among the elements.
-- nullable elements: statuses
SELECT job.id, worker.id, @class::text AS class,
       sqlc.arg('self')::text AS from_self, @records::int AS index,
       @statuses::job_status[] AS statuses
FROM jobs AS job LEFT JOIN extra.workers AS worker ON worker.id = job.worker_id
LIMIT 1;

-- Workers. A comment that a blank line sets off is about no single query.

-- name: WorkerAdd :exec
-- This one is.
INSERT INTO extra.workers (id, name, mood) VALUES (@id, @name, @mood);

-- name: WorkerList :many
SELECT * FROM extra.workers ORDER BY name;

-- name: Ping :one
SELECT E'pong\t"""'::text;

-- name: Touch :exec
UPDATE jobs SET run_at = now();

-- name: Nap :exec
SELECT pg_sleep(@seconds);
