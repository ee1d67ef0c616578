-- name: ValuesInsert :one
INSERT INTO all_values (
  a_bool, a_smallint, an_integer, a_bigint, a_real, a_double, a_numeric, a_text, a_varchar, a_uuid,
  a_bytea, a_json, a_jsonb, a_timestamptz, a_date, an_interval, a_status, a_mood,
  maybe_text, maybe_status, maybe_interval,
  bools, integers, doubles, numerics, texts, uuids, byteas, jsonbs, timestamptzs, dates, intervals,
  statuses, maybe_texts, maybe_statuses, class, count, datetime
) VALUES (
  @a_bool, @a_smallint, @an_integer, @a_bigint, @a_real, @a_double, @a_numeric, @a_text, @a_varchar,
  @a_uuid, @a_bytea, @a_json, @a_jsonb, @a_timestamptz, @a_date, @an_interval, @a_status, @a_mood,
  @maybe_text, @maybe_status, @maybe_interval,
  @bools, @integers, @doubles, @numerics, @texts, @uuids, @byteas, @jsonbs, @timestamptzs, @dates,
  @intervals, @statuses, @maybe_texts, @maybe_statuses, @class, @count, @datetime
)
RETURNING *;

-- name: ValuesCast :one
-- The names by which a cast or a function's result arrives.
SELECT true::bool AS a_bool, 1::smallint AS a_smallint, 2::integer AS an_integer, 3::int8 AS a_bigint,
       0.5::float4 AS a_real, 0.5::float8 AS a_double, 1.5::decimal AS a_numeric,
       'x'::character varying AS a_varchar, now() AS a_now,
       now()::timestamp with time zone AS a_cast_now, make_interval(secs => @seconds) AS an_interval,
       extract(epoch FROM @since::timestamptz)::float8 AS an_epoch,
       jsonb_build_object('status', @status::job_status) AS an_object,
       gen_random_uuid() AS a_uuid, (1 < 2) AS a_comparison;
