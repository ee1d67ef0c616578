CREATE TYPE job_status AS ENUM ('PENDING', 'RUNNING', 'dead-lettered', '2nd try');

-- An enum and a table outside the default schema.
CREATE SCHEMA extra;
CREATE TYPE extra.mood AS ENUM ('good', 'bad');
COMMENT ON TYPE extra.mood IS 'How a worker feels.';

CREATE TABLE jobs (
  id          uuid        NOT NULL PRIMARY KEY,
  topic       text        NOT NULL,
  status      job_status  NOT NULL DEFAULT 'PENDING',
  was         job_status,
  payload     bytea       NOT NULL DEFAULT '',
  priority    smallint    NOT NULL DEFAULT 0,
  attempts    integer     NOT NULL DEFAULT 0,
  run_at      timestamptz NOT NULL DEFAULT now(),
  lease_until timestamptz,
  worker_id   uuid,
  tags        text[]
);
COMMENT ON TABLE jobs IS 'One row is one job.';

CREATE TABLE extra.workers (
  id   uuid NOT NULL PRIMARY KEY,
  name text,
  mood extra.mood NOT NULL DEFAULT 'good'
);

-- Every type that the plugin knows; names that Python or a NamedTuple would not take.
CREATE TABLE all_values (
  id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  a_bool          boolean          NOT NULL,
  a_smallint      smallint         NOT NULL,
  an_integer      integer          NOT NULL,
  a_bigint        bigint           NOT NULL,
  a_real          real             NOT NULL,
  a_double        double precision NOT NULL,
  a_numeric       numeric(12, 3)   NOT NULL,
  a_text          text             NOT NULL,
  a_varchar       varchar(20)      NOT NULL,
  a_uuid          uuid             NOT NULL,
  a_bytea         bytea            NOT NULL,
  a_json          json             NOT NULL,
  a_jsonb         jsonb            NOT NULL,
  a_timestamptz   timestamptz      NOT NULL,
  a_date          date             NOT NULL,
  an_interval     interval         NOT NULL,
  a_status        job_status       NOT NULL,
  a_mood          extra.mood       NOT NULL,
  maybe_text      text,
  maybe_status    job_status,
  maybe_interval  interval,
  bools           boolean[]        NOT NULL,
  integers        integer[]        NOT NULL,
  doubles         double precision[] NOT NULL,
  numerics        numeric[]        NOT NULL,
  texts           text[]           NOT NULL,
  uuids           uuid[]           NOT NULL,
  byteas          bytea[]          NOT NULL,
  jsonbs          jsonb[]          NOT NULL,
  timestamptzs    timestamptz[]    NOT NULL,
  dates           date[]           NOT NULL,
  intervals       interval[]       NOT NULL,
  statuses        job_status[]     NOT NULL,
  maybe_texts     text[],
  maybe_statuses  job_status[],
  class           text,
  count           integer,
  datetime        timestamptz
);
