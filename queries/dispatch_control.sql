-- The pause switch.

-- name: DispatchControlList :many
-- Every scope: '' is everything, the others are topics.
SELECT * FROM dispatch_control ORDER BY dispatch_control.scope;

-- name: DispatchControlPause :one
-- Pausing what is paused replaces reason, author and time.
INSERT INTO dispatch_control (scope, paused, reason, paused_by, paused_at)
VALUES (@scope, true, @reason, @paused_by, coalesce(sqlc.narg('now')::timestamptz, now()))
ON CONFLICT (scope) DO UPDATE
SET paused = true, reason = excluded.reason, paused_by = excluded.paused_by, paused_at = excluded.paused_at
RETURNING *;

-- name: DispatchControlResume :one
-- The reason is forgotten, the time of the last pause is kept. No row: the scope was never paused.
UPDATE dispatch_control
SET paused = false, reason = '', paused_by = ''
WHERE dispatch_control.scope = @scope
RETURNING *;
