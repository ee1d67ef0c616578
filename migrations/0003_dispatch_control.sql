-- The pause switch: one row for everything (the empty scope), and one for each topic that was ever paused.

CREATE TABLE dispatch_control (
  -- A topic, or '' for everything.
  scope     text    NOT NULL,
  paused    boolean NOT NULL,
  reason    text    NOT NULL,
  paused_by text    NOT NULL,
  -- When it was last paused; kept when it is resumed.
  paused_at timestamptz,

  CONSTRAINT dispatch_control_pkey PRIMARY KEY (scope),
  CONSTRAINT dispatch_control_paused_has_time CHECK (NOT paused OR paused_at IS NOT NULL),
  CONSTRAINT dispatch_control_running_has_no_reason CHECK (paused OR (reason = '' AND paused_by = ''))
);

INSERT INTO dispatch_control (scope, paused, reason, paused_by) VALUES ('', false, '', '');
