-- Presence: which workers are connected to which server.

-- name: WorkersVouch :exec
-- One server's word for all its open streams, in one statement. A worker that moved belongs to the server that spoke last.
INSERT INTO workers (id, server_id, topics, capacity, host, version, connected_at, last_seen_at)
SELECT given.id, @server_id::uuid, ARRAY(SELECT jsonb_array_elements_text(given.topics)), given.capacity, given.host,
  given.version, coalesce(sqlc.narg('now')::timestamptz, now()), coalesce(sqlc.narg('now')::timestamptz, now())
FROM (
  SELECT unnest(@ids::uuid[]) AS id, unnest(@topics::jsonb[]) AS topics, unnest(@capacities::integer[]) AS capacity,
    unnest(@hosts::text[]) AS host, unnest(@versions::text[]) AS version
) AS given
ON CONFLICT (id) DO UPDATE
SET server_id = excluded.server_id, topics = excluded.topics, capacity = excluded.capacity, host = excluded.host,
    version = excluded.version, last_seen_at = excluded.last_seen_at,
    connected_at = CASE WHEN workers.server_id = excluded.server_id THEN workers.connected_at ELSE excluded.connected_at END;

-- name: WorkersGone :exec
-- Forgets workers whose stream on this server ended.
DELETE FROM workers WHERE workers.id = ANY(@ids::uuid[]) AND workers.server_id = @server_id::uuid;

-- name: WorkersForget :execrows
-- Forgets workers that nobody has vouched for within @silence: their server is gone.
DELETE FROM workers
WHERE workers.last_seen_at < coalesce(sqlc.narg('now')::timestamptz, now()) - @silence::interval;

-- name: WorkersList :many
-- Connected workers with what they hold, the longest connected first.
SELECT workers.id, workers.server_id, workers.topics, workers.capacity, workers.host, workers.version,
  workers.connected_at, workers.last_seen_at, coalesce(holding.jobs, 0)::bigint AS held
FROM workers
LEFT JOIN (
  SELECT jobs.worker_id, count(*) AS jobs FROM jobs WHERE jobs.status = 'RUNNING' GROUP BY jobs.worker_id
) AS holding ON holding.worker_id = workers.id
WHERE (sqlc.narg('topic')::text IS NULL OR sqlc.narg('topic')::text = ANY(workers.topics))
ORDER BY workers.connected_at, workers.id
LIMIT 10000;
