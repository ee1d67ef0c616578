-- Figures for people. Counting what waits reads indexes only; what is finished is counted where it is rare and estimated where it is not.

-- name: StatsWaiting :many
-- What waits, by topic and status, and how many seconds the longest ready has waited. Index-only on jobs_ready and jobs_later.
SELECT waiting.topic, waiting.status, waiting.ready, waiting.jobs,
  extract(epoch FROM coalesce(sqlc.narg('now')::timestamptz, now()) - waiting.oldest)::double precision AS oldest_seconds
FROM (
  SELECT jobs.topic, jobs.status, true AS ready, count(*) AS jobs, min(jobs.next_run_at) AS oldest
  FROM jobs
  WHERE jobs.ready
  GROUP BY jobs.topic, jobs.status
  UNION ALL
  SELECT jobs.topic, jobs.status, false AS ready, count(*) AS jobs, min(jobs.next_run_at) AS oldest
  FROM jobs
  WHERE NOT jobs.ready AND jobs.status IN ('PENDING', 'RETRYING')
  GROUP BY jobs.topic, jobs.status
) AS waiting;

-- name: StatsRunning :many
-- What runs, by topic. The RUNNING part of jobs_status.
SELECT jobs.topic, count(*) AS jobs FROM jobs WHERE jobs.status = 'RUNNING' GROUP BY jobs.topic;

-- name: StatsFinished :many
-- Dead letters and cancellations by topic, the latest @max_rows of each. Backwards over jobs_finished.
SELECT finished.topic, finished.status, count(*) AS jobs
FROM (
  SELECT latest.topic, latest.status
  FROM (SELECT unnest(ARRAY['DEAD_LETTERED', 'CANCELED']::job_status[]) AS status) AS wanted
  CROSS JOIN LATERAL (
    SELECT jobs.topic, jobs.status
    FROM jobs
    WHERE jobs.status = wanted.status AND jobs.finished_at IS NOT NULL
    ORDER BY jobs.finished_at DESC
    LIMIT @max_rows::integer
  ) AS latest
) AS finished
GROUP BY finished.topic, finished.status;

-- name: StatsCompletedEstimate :one
-- How many COMPLETED jobs the table keeps, by the planner's statistics: as good as the last ANALYZE.
SELECT coalesce((
  SELECT greatest(pg_class.reltuples, 0) * coalesce(frequency.value, 0)
  FROM pg_catalog.pg_class
  LEFT JOIN (
    SELECT unnest(pg_stats.most_common_vals::text::text[]) AS status, unnest(pg_stats.most_common_freqs) AS value
    FROM pg_catalog.pg_stats
    WHERE pg_stats.schemaname = current_schema() AND pg_stats.tablename = 'jobs' AND pg_stats.attname = 'status'
  ) AS frequency ON frequency.status = 'COMPLETED'
  WHERE pg_class.oid = 'jobs'::regclass
), 0)::bigint AS jobs;

-- name: StatsKnownTopics :many
-- Topics that schedules submit to, or that had traffic within @span.
SELECT schedules.topic FROM schedules
UNION
SELECT topic_minutes.topic FROM topic_minutes
WHERE topic_minutes.minute >= coalesce(sqlc.narg('now')::timestamptz, now()) - @span::interval;

-- name: TopicMinutesAdd :exec
-- Adds one server's counts to the minutes of the database's clock.
INSERT INTO topic_minutes (topic, minute, submitted, completed, failed, dead_lettered, wait_histogram, run_histogram)
SELECT given.topic, date_trunc('minute', coalesce(sqlc.narg('now')::timestamptz, now())), given.submitted, given.completed,
  given.failed, given.dead_lettered,
  ARRAY(SELECT jsonb_array_elements_text(given.waits)::bigint), ARRAY(SELECT jsonb_array_elements_text(given.runs)::bigint)
FROM (
  SELECT unnest(@topics::text[]) AS topic, unnest(@submitted::bigint[]) AS submitted,
    unnest(@completed::bigint[]) AS completed, unnest(@failed::bigint[]) AS failed,
    unnest(@dead_lettered::bigint[]) AS dead_lettered, unnest(@waits::jsonb[]) AS waits, unnest(@runs::jsonb[]) AS runs
) AS given
ORDER BY given.topic
ON CONFLICT (minute, topic) DO UPDATE
SET submitted = topic_minutes.submitted + excluded.submitted,
    completed = topic_minutes.completed + excluded.completed,
    failed = topic_minutes.failed + excluded.failed,
    dead_lettered = topic_minutes.dead_lettered + excluded.dead_lettered,
    wait_histogram = histogram_add(topic_minutes.wait_histogram, excluded.wait_histogram),
    run_histogram = histogram_add(topic_minutes.run_histogram, excluded.run_histogram);

-- name: TopicTraffic :many
-- What happened between two moments, by topic and spans of @length that are counted back from @until: 0, 1, 2, ...
SELECT topic_minutes.topic,
  floor(extract(epoch FROM (sqlc.arg('until')::timestamptz - topic_minutes.minute) - interval '1 minute')
    / extract(epoch FROM sqlc.arg('length')::interval))::integer AS spans_ago,
  sum(topic_minutes.submitted)::bigint AS submitted, sum(topic_minutes.completed)::bigint AS completed,
  sum(topic_minutes.failed)::bigint AS failed, sum(topic_minutes.dead_lettered)::bigint AS dead_lettered
FROM topic_minutes
WHERE topic_minutes.minute >= @since::timestamptz AND topic_minutes.minute < @until::timestamptz
GROUP BY 1, 2;

-- name: TopicTimes :many
-- How long jobs waited and ran between two moments, minute by minute.
SELECT topic_minutes.topic, topic_minutes.wait_histogram, topic_minutes.run_histogram
FROM topic_minutes
WHERE topic_minutes.minute >= @since::timestamptz AND topic_minutes.minute < @until::timestamptz;

-- name: TopicMinutesPrune :execrows
DELETE FROM topic_minutes WHERE topic_minutes.minute < coalesce(sqlc.narg('now')::timestamptz, now()) - @keep::interval;

-- name: DeadLetterErrors :many
-- The errors of the latest dead letters, for grouping. Backwards over jobs_finished.
SELECT jobs.id, jobs.topic, jobs.last_error, jobs.finished_at
FROM jobs
WHERE jobs.status = 'DEAD_LETTERED' AND jobs.finished_at IS NOT NULL
  AND (sqlc.narg('topic')::text IS NULL OR jobs.topic = sqlc.narg('topic')::text)
ORDER BY jobs.finished_at DESC
LIMIT 10000;

-- name: DatabaseInfo :one
-- The server's version and the age in seconds of the oldest transaction that holds back vacuum.
SELECT current_setting('server_version')::text AS version,
  coalesce((
    SELECT max(extract(epoch FROM now() - pg_stat_activity.xact_start))
    FROM pg_catalog.pg_stat_activity
    WHERE pg_stat_activity.backend_xmin IS NOT NULL AND pg_stat_activity.pid <> pg_backend_pid()
  ), 0)::double precision AS oldest_transaction;
