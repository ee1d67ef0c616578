-- Word between servers.

-- name: NotifySend :exec
-- A transaction of its own: NOTIFY inside of busy transactions makes their commits queue up.
SELECT pg_notify(@channel::text, @message::text);
