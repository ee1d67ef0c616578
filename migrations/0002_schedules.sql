-- Schedules: definitions that somebody keeps, and the cursor that the scheduler moves.

CREATE TYPE schedule_kind AS ENUM ('AT', 'EVERY', 'CRON');

CREATE TYPE misfire_policy AS ENUM ('SKIP', 'ONCE', 'ALL');

CREATE TABLE schedules (
  id             uuid           NOT NULL,
  name           text           NOT NULL,
  kind           schedule_kind  NOT NULL,
  -- AT: the moment. EVERY: the first occurrence.
  start_at       timestamptz,
  -- EVERY.
  every          interval,
  -- CRON.
  cron           text,
  timezone       text,
  misfire_policy misfire_policy NOT NULL,
  misfire_limit  integer        NOT NULL,
  paused         boolean        NOT NULL DEFAULT false,
  -- The cursor: the next occurrence, moved by compare-and-set. NULL: there is none.
  next_run_at    timestamptz,
  last_fired_at  timestamptz,
  created_at     timestamptz    NOT NULL,
  updated_at     timestamptz    NOT NULL,

  -- What to submit; the columns are those of jobs.
  topic          text           NOT NULL,
  payload        bytea          NOT NULL,
  content_type   text           NOT NULL,
  priority       integer        NOT NULL,
  max_attempts   integer        NOT NULL,
  backoff_kind   backoff_kind,
  backoff_base   interval,
  backoff_cap    interval,
  backoff_jitter double precision,
  timeout        interval,
  lease          interval,
  unique_key     text,
  unique_period  interval,
  tags           text[],
  metadata       jsonb,

  CONSTRAINT schedules_pkey PRIMARY KEY (id),
  CONSTRAINT schedules_name_key UNIQUE (name),
  CONSTRAINT schedules_at_has_moment CHECK (kind <> 'AT' OR start_at IS NOT NULL),
  CONSTRAINT schedules_every_has_rhythm CHECK
    (kind <> 'EVERY' OR (start_at IS NOT NULL AND every IS NOT NULL AND every > interval '0')),
  CONSTRAINT schedules_cron_has_expression CHECK
    (kind <> 'CRON' OR (cron IS NOT NULL AND timezone IS NOT NULL)),
  CONSTRAINT schedules_misfire_limit_range CHECK (misfire_limit >= 1)
);

-- The scheduler: what is due.
CREATE INDEX schedules_due ON schedules (next_run_at) WHERE NOT paused AND next_run_at IS NOT NULL;
