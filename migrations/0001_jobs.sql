-- One row is one job: its arguments, its policy, its state and its lease.

CREATE TYPE job_status AS ENUM
  ('PENDING', 'RUNNING', 'COMPLETED', 'RETRYING', 'DEAD_LETTERED', 'CANCELED');

CREATE TYPE backoff_kind AS ENUM ('QUADRATIC', 'FIXED', 'LINEAR', 'EXPONENTIAL');

CREATE TABLE jobs (
  id                  uuid        NOT NULL,
  -- Order of arrival: the FIFO among equal priorities and the cursor of lists. Ids can't serve, callers make them.
  seq                 bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
  submitted_at        timestamptz NOT NULL,
  -- When it may run, or might have run, next.
  next_run_at         timestamptz NOT NULL,
  -- When the latest attempt was given to a worker.
  started_at          timestamptz,
  finished_at         timestamptz,
  -- The lease: RUNNING until then belongs to worker_id.
  lease_until         timestamptz,
  cancel_requested_at timestamptz,
  status              job_status  NOT NULL,
  priority            integer     NOT NULL,
  -- Claims made so far: never goes down, so (id, attempts) is the fence.
  attempts            integer     NOT NULL DEFAULT 0,
  -- Claims that do not count against max_attempts: snoozes, and all before a retry by hand.
  attempts_forgiven   integer     NOT NULL DEFAULT 0,
  max_attempts        integer     NOT NULL,
  -- Waits and is due: what a claim may take. Jobs whose time has not come stay out of the claim's index.
  ready               boolean     NOT NULL,
  -- Holds unique_key against other jobs of the topic.
  unique_held         boolean     NOT NULL DEFAULT false,
  topic               text        NOT NULL,
  payload             bytea       NOT NULL,
  content_type        text        NOT NULL,
  -- The worker of the latest attempt.
  worker_id           uuid,
  schedule_id         uuid,
  scheduled_for       timestamptz,
  -- Policy; NULL is the default of the server.
  backoff_kind        backoff_kind,
  backoff_base        interval,
  backoff_cap         interval,
  backoff_jitter      double precision,
  timeout             interval,
  lease               interval,
  unique_key          text,
  -- NULL: the key is held until the job finishes.
  unique_until        timestamptz,
  tags                text[],
  metadata            jsonb,
  last_error          text,
  -- The latest failed attempts, oldest first: [{attempt, worker_id, started_at, failed_at, error}, ...].
  failures            jsonb,

  CONSTRAINT jobs_pkey PRIMARY KEY (id),
  CONSTRAINT jobs_running_has_lease CHECK ((status = 'RUNNING') = (lease_until IS NOT NULL)),
  CONSTRAINT jobs_running_has_owner CHECK (status <> 'RUNNING' OR worker_id IS NOT NULL),
  CONSTRAINT jobs_finished_has_time CHECK
    ((status IN ('COMPLETED', 'DEAD_LETTERED', 'CANCELED')) = (finished_at IS NOT NULL)),
  CONSTRAINT jobs_ready_waits CHECK (NOT ready OR status IN ('PENDING', 'RETRYING')),
  CONSTRAINT jobs_unique_has_key CHECK (NOT unique_held OR unique_key IS NOT NULL),
  CONSTRAINT jobs_attempts_range CHECK (attempts_forgiven BETWEEN 0 AND attempts),
  CONSTRAINT jobs_max_attempts_range CHECK (max_attempts >= 1),
  CONSTRAINT jobs_topic_length CHECK (octet_length(topic) BETWEEN 1 AND 255)
);

-- Rows are rewritten three times in their life and then sit still: clean up early, by count and not by share of the table.
ALTER TABLE jobs SET (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 10000,
  autovacuum_vacuum_insert_scale_factor = 0.1,
  autovacuum_analyze_scale_factor = 0.05
);

-- Claims: the order of dispatch, and nothing that may not run now. What is included is for counting without the table.
CREATE INDEX jobs_ready ON jobs (topic, priority DESC, seq) INCLUDE (status, next_run_at) WHERE ready;

-- Promotion of what falls due.
CREATE INDEX jobs_later ON jobs (next_run_at) INCLUDE (topic, status)
  WHERE NOT ready AND status IN ('PENDING', 'RETRYING');

-- Lists and counts by status, and everything that RUNNING rows are needed for: watchdog, holdings of a worker.
-- lease_until is in no index, so that a heartbeat is a HOT update.
CREATE INDEX jobs_status ON jobs (status, seq);

-- Retention.
CREATE INDEX jobs_finished ON jobs (status, finished_at) WHERE finished_at IS NOT NULL;

CREATE UNIQUE INDEX jobs_unique_key ON jobs (topic, unique_key) WHERE unique_held;

CREATE INDEX jobs_schedule ON jobs (schedule_id, seq) WHERE schedule_id IS NOT NULL;

CREATE INDEX jobs_tags ON jobs USING gin (tags) WHERE tags IS NOT NULL;

-- The wait before the next attempt, given the attempts spent (1, 2, 3, ...). `chance` is in [0, 1): with a jitter of j the wait
-- loses up to the share j of itself. A NULL policy is the default: spent squared in seconds, a day at most.
CREATE FUNCTION job_retry_delay(
  kind backoff_kind, base interval, cap interval, jitter double precision, spent integer, chance double precision
) RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT least(
    extract(epoch FROM coalesce(base, interval '1 second'))::double precision
      * CASE coalesce(kind, 'QUADRATIC')
          WHEN 'QUADRATIC' THEN spent::double precision * spent
          WHEN 'FIXED' THEN 1
          WHEN 'LINEAR' THEN spent
          WHEN 'EXPONENTIAL' THEN power(2::double precision, least(spent - 1, 62))
        END,
    extract(epoch FROM coalesce(cap, interval '24 hours'))::double precision
  ) * (1 - coalesce(jitter, 0) * chance) * interval '1 second'
$$;

-- What a failed attempt makes of its job, given the attempts spent, this one included.
CREATE FUNCTION job_verdict(cancel_requested_at timestamptz, spent integer, max_attempts integer, discard boolean)
RETURNS job_status LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN cancel_requested_at IS NOT NULL THEN 'CANCELED'
    WHEN discard OR spent >= max_attempts THEN 'DEAD_LETTERED'
    ELSE 'RETRYING'
  END::job_status
$$;

-- The history with one more failure, the oldest dropped beyond twenty.
CREATE FUNCTION job_failures_append(
  failures jsonb, attempt integer, worker_id uuid, started_at timestamptz, failed_at timestamptz, error text
) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN jsonb_array_length(failures) >= 20 THEN failures - 0 ELSE coalesce(failures, '[]') END
    || jsonb_build_object(
         'attempt', attempt, 'worker_id', worker_id,
         'started_at', extract(epoch FROM started_at), 'failed_at', extract(epoch FROM failed_at), 'error', error)
$$;

-- Whether a payload is JSON that contains `wanted`. Anything else than JSON is simply not a match.
CREATE FUNCTION job_payload_contains(payload bytea, wanted jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN convert_from(payload, 'UTF8')::jsonb @> wanted;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
  RETURN false;
END
$$;
