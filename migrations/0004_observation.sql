-- What people look at and no guarantee rests on: who is connected, and what happened in each minute.

-- One row for each open stream, vouched for by its server.
CREATE TABLE workers (
  id           uuid        NOT NULL,
  server_id    uuid        NOT NULL,
  topics       text[]      NOT NULL,
  capacity     integer     NOT NULL,
  host         text        NOT NULL,
  version      text        NOT NULL,
  connected_at timestamptz NOT NULL,
  last_seen_at timestamptz NOT NULL,

  CONSTRAINT workers_pkey PRIMARY KEY (id)
);

-- Traffic by topic and minute, added to by every server. The histograms count times in steps of the square root of two
-- from a tenth of a millisecond up.
CREATE TABLE topic_minutes (
  topic          text        NOT NULL,
  minute         timestamptz NOT NULL,
  submitted      bigint      NOT NULL,
  completed      bigint      NOT NULL,
  failed         bigint      NOT NULL,
  dead_lettered  bigint      NOT NULL,
  wait_histogram bigint[]    NOT NULL,
  run_histogram  bigint[]    NOT NULL,

  CONSTRAINT topic_minutes_pkey PRIMARY KEY (minute, topic)
);

-- Two histograms added up, step by step.
CREATE FUNCTION histogram_add(a bigint[], b bigint[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT array_agg(coalesce(a[step], 0) + coalesce(b[step], 0) ORDER BY step)
  FROM generate_series(1, greatest(cardinality(a), cardinality(b))) AS step
$$;
