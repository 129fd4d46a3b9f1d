// The fence in a PostgreSQL database that several processes share: of two that race for one entry, one wins. A verdict is one
// call of a function of the database's, which takes a lock of the hint's, compares, writes, and commits before it is heard of.
//
// Confirmed entries lie in partitions of some days each; once the last of its days is over, a partition is dropped. New ones,
// which come and go one by one, are a table of their own. What is damaged is the database's to notice (data_checksums, which
// opening a store insists on): an entry on a damaged page is an error, not a verdict. So entries carry no checksum here.
//
// The day is the latest that any process has come to, by the rules of fence-clock.ts; the hours of new ones go by the
// database's clock. How many there are is counted now and then, which takes a database of millions a while: nobody waits for it but
// who registers on a new day. Each process counts what it adds in between: the limits are kept to within what the others add meanwhile.

import type { FenceRequest, FenceVerdict } from '@keyhush/protocol'
import { Refusal } from '../base/refusal.js'
import type { Engine } from '../storage/storage.js'
import {
  DEFAULT_DAYS,
  DEFAULT_ENTRIES,
  type Fence,
  type FenceOptions,
  FULL,
  mostNew,
  NEW_SECONDS,
  NetworkShares,
} from './fence.js'
import { FenceClock, type StoredDay } from './fence-clock.js'

/** A hint is looked for in every partition, so there are few: each has this part of the days an entry may live. */
const PARTITIONS = 16
const EXPIRED_TOGETHER = 1000
const COUNTED_FOR_SECONDS = 10 * 60

interface Judged {
  readonly verdict: FenceVerdict | 'full'
  /** what it changed in how many there are */
  readonly confirmed: number
  readonly registered: number
  /** the day that all processes have come to */
  readonly day: number
}

export class PostgresFence implements Fence {
  turnedAway = 0
  readonly #engine: Engine
  readonly #days: number
  readonly #most: number
  readonly #clock: FenceClock
  readonly #shares: NetworkShares
  #confirmed = 0
  #new = 0
  #countedAt = Number.NEGATIVE_INFINITY
  /** since the latest new day */
  #counted: Promise<void> = Promise.resolve()
  #expiredAt = Number.NEGATIVE_INFINITY
  /** the day that there is a partition for, or will be */
  #prepared: { readonly day: number; readonly done: Promise<void> } | undefined

  private constructor(engine: Engine, clock: FenceClock, options: FenceOptions) {
    this.#engine = engine
    this.#days = options.days ?? DEFAULT_DAYS
    this.#most = options.entries ?? DEFAULT_ENTRIES
    this.#clock = clock
    this.#shares = new NetworkShares(this.#most, clock)
  }

  static async open(engine: Engine, options: FenceOptions = {}): Promise<PostgresFence> {
    await engine.query(tables(engine.schema))
    const [stored] = await engine.query<StoredDay>(`SELECT day, calendar FROM ${engine.schema}.fence_clock`)
    const fence = new PostgresFence(engine, new FenceClock(stored, options), options)
    await fence.#prepare()
    await fence.#counted
    return fence
  }

  get hints(): number {
    return this.#confirmed + this.#new
  }

  get most(): number {
    return this.#most
  }

  get problem(): string | undefined {
    return this.#confirmed < this.#most ? undefined : FULL
  }

  async judge(request: FenceRequest, network = 'unknown'): Promise<FenceVerdict> {
    await this.#prepare()
    const registers = request.kind === 'register'
    if (registers) {
      await this.#counted
      await this.#expireNew()
      if (this.#clock.seconds - this.#countedAt > COUNTED_FOR_SECONDS) this.#count().catch(() => {})
    }
    const isShared = registers && this.#shares.take(network)
    let judged: Judged | undefined
    try {
      judged = await this.#ask(request, isShared)
    } finally {
      if (isShared && (judged?.registered ?? 0) === 0 && judged?.verdict !== 'full') this.#shares.giveBack(network)
    }
    this.#clock.follow(judged.day)
    this.#confirmed += judged.confirmed
    this.#new += judged.registered
    if (judged.verdict !== 'full') return judged.verdict
    this.turnedAway++
    throw new Refusal('fence_full', 'the fence takes no new hints from there at the moment')
  }

  async #ask({ kind, hintId, version, requestHash }: FenceRequest, isShared: boolean): Promise<Judged> {
    const isFull = this.#confirmed >= this.#most
    const makesRoom = this.#new >= mostNew(this.#most) || this.hints >= this.#most
    const [judged] = await this.#engine.query<Judged>(
      `SELECT verdict, confirmed, registered, day FROM ${this.#engine.schema}.fence_judge($1, $2, $3, $4, $5, $6, $7, $8)`,
      [
        Buffer.from(hintId),
        kind === 'register',
        version,
        Buffer.from(requestHash),
        this.#clock.today,
        this.#days,
        isShared && !(isFull && this.#new === 0),
        makesRoom,
      ],
    )
    return judged!
  }

  /** Makes sure that there is a partition for today, and drops those whose days are over. */
  async #prepare(): Promise<void> {
    const { day, calendar } = this.#clock.now
    if (this.#prepared?.day !== day) {
      const span = Math.max(1, Math.ceil(this.#days / PARTITIONS))
      const done = this.#engine
        .query<{ day: number }>(`SELECT ${this.#engine.schema}.fence_prepare($1, $2, $3, $4) AS day`, [
          ...[day, calendar, this.#days, span],
        ])
        .then(([row]) => {
          this.#clock.follow(row!.day)
          this.#counted = this.#count().catch(() => {}) // who registers next tries again
        })
      this.#prepared = { day, done }
      done.catch(() => {
        this.#prepared = undefined // the next one tries again
      })
    }
    await this.#prepared!.done
  }

  /** Removes new ones whose time is over, so many at a time, at most once a second. */
  async #expireNew(): Promise<void> {
    const { seconds } = this.#clock
    if (seconds === this.#expiredAt) return
    this.#expiredAt = seconds
    const { schema } = this.#engine
    const over = `extract(epoch FROM now())::bigint - ${NEW_SECONDS}`
    const gone = await this.#engine.query(
      `DELETE FROM ${schema}.fence_new WHERE hint IN (
         SELECT hint FROM ${schema}.fence_new WHERE second < ${over} ORDER BY second LIMIT ${EXPIRED_TOGETHER} FOR UPDATE SKIP LOCKED
       ) RETURNING 1`,
    )
    this.#new -= gone.length
  }

  async #count(): Promise<void> {
    const { schema } = this.#engine
    this.#countedAt = this.#clock.seconds
    try {
      const [count] = await this.#engine.query<{ confirmed: number; registered: number }>(
        `SELECT (SELECT count(*) FROM ${schema}.fence)::int AS confirmed, (SELECT count(*) FROM ${schema}.fence_new)::int AS registered`,
      )
      this.#confirmed = count!.confirmed
      this.#new = count!.registered
    } catch (error) {
      this.#countedAt = Number.NEGATIVE_INFINITY
      throw error
    }
  }
}

/** What there is once; a process that opens the store makes what is not there. */
const tables = (schema: string) => `
SELECT pg_advisory_xact_lock(hashtextextended('keyhush fence tables ${schema}', 0));

CREATE TABLE IF NOT EXISTS ${schema}.fence_clock (one boolean PRIMARY KEY CHECK (one), day int NOT NULL, calendar int NOT NULL);

-- first to past - 1: the days of a partition, which is named after the first
CREATE TABLE IF NOT EXISTS ${schema}.fence_days (first int PRIMARY KEY, past int NOT NULL);

CREATE TABLE IF NOT EXISTS ${schema}.fence (
  hint bytea NOT NULL,
  day int NOT NULL,
  version bigint NOT NULL,
  request bytea NOT NULL,
  PRIMARY KEY (hint, day)
) PARTITION BY RANGE (day);

CREATE TABLE IF NOT EXISTS ${schema}.fence_new (hint bytea PRIMARY KEY, second bigint NOT NULL, request bytea NOT NULL);
CREATE INDEX IF NOT EXISTS fence_new_second ON ${schema}.fence_new (second);

-- The table of docs/protocol.md, Rollback fence. Two calls for one hint happen one after the other, wherever they come from.
CREATE OR REPLACE FUNCTION ${schema}.fence_judge(
  of_hint bytea, registers boolean, to_version bigint, to_request bytea,
  today int, days int, has_room boolean, makes_room boolean,
  OUT verdict text, OUT confirmed int, OUT registered int, OUT day int
) LANGUAGE plpgsql VOLATILE AS $judge$
DECLARE
  kept record;
  is_kept boolean;
  is_new boolean := false;
  now_second constant bigint := extract(epoch FROM now())::bigint;
  nothing constant bytea := '\\x${'00'.repeat(32)}';
BEGIN
  -- What only compares would pass at a standby, which may be behind.
  IF current_setting('transaction_read_only')::boolean THEN
    RAISE EXCEPTION 'this server only reads' USING ERRCODE = 'read_only_sql_transaction';
  END IF;
  confirmed := 0;
  registered := 0;
  PERFORM pg_advisory_xact_lock(hashtextextended('${schema} ' || encode(of_hint, 'hex'), 0));

  SELECT greatest(today, c.day) INTO STRICT today FROM ${schema}.fence_clock c;
  day := today;
  SELECT f.version, f.request, f.day INTO kept FROM ${schema}.fence f WHERE f.hint = of_hint;
  is_kept := FOUND;
  IF is_kept AND kept.day < today - days THEN
    DELETE FROM ${schema}.fence f WHERE f.hint = of_hint;
    confirmed := -1;
    is_kept := false;
  END IF;
  IF NOT is_kept THEN
    SELECT 0::bigint AS version, n.request, today AS day INTO kept
      FROM ${schema}.fence_new n WHERE n.hint = of_hint AND n.second >= now_second - ${NEW_SECONDS};
    is_kept := FOUND;
    is_new := FOUND;
  END IF;

  IF registers AND NOT is_kept THEN
    verdict := 'full';
    IF NOT has_room THEN RETURN; END IF;
    IF makes_room THEN
      DELETE FROM ${schema}.fence_new WHERE hint = (
        SELECT n.hint FROM ${schema}.fence_new n ORDER BY n.second LIMIT 1 FOR UPDATE SKIP LOCKED
      );
      IF NOT FOUND THEN RETURN; END IF;
      registered := -1;
    END IF;
    INSERT INTO ${schema}.fence_new VALUES (of_hint, now_second, to_request)
      ON CONFLICT (hint) DO UPDATE SET second = excluded.second, request = excluded.request;
    registered := registered + 1;
    verdict := 'granted';
    RETURN;
  END IF;

  IF registers THEN
    verdict := CASE WHEN kept.version = 0 AND kept.request = nothing THEN 'granted' ELSE 'refused' END;
    RETURN;
  END IF;

  verdict := 'refused';
  IF NOT is_kept OR to_version < kept.version THEN RETURN; END IF;
  IF to_version = kept.version AND kept.request <> nothing AND kept.request <> to_request THEN RETURN; END IF;
  verdict := 'granted';
  IF to_request = nothing THEN -- who has no request yet only asks
    to_version := kept.version;
    to_request := kept.request;
  END IF;
  IF is_new THEN
    DELETE FROM ${schema}.fence_new n WHERE n.hint = of_hint;
    INSERT INTO ${schema}.fence VALUES (of_hint, today, to_version, to_request);
    confirmed := confirmed + 1;
    registered := -1;
  ELSIF kept.version <> to_version OR kept.request <> to_request OR kept.day < today THEN
    UPDATE ${schema}.fence f SET day = greatest(kept.day, today), version = to_version, request = to_request
      WHERE f.hint = of_hint AND f.day = kept.day;
  END IF;
END $judge$;

-- Days only go on. Partitions follow one another without a gap.
CREATE OR REPLACE FUNCTION ${schema}.fence_prepare(today int, today_calendar int, days int, span int)
RETURNS int LANGUAGE plpgsql VOLATILE AS $prepare$
DECLARE
  next_first int;
  next_past int;
  gone int;
BEGIN
  SET LOCAL lock_timeout = '10s';
  PERFORM pg_advisory_xact_lock(hashtextextended('keyhush fence tables ${schema}', 0));
  INSERT INTO ${schema}.fence_clock VALUES (true, today, today_calendar) ON CONFLICT (one) DO UPDATE
    SET day = greatest(fence_clock.day, excluded.day), calendar = greatest(fence_clock.calendar, excluded.calendar)
    RETURNING day INTO STRICT today;
  SELECT coalesce(max(past), today) INTO next_first FROM ${schema}.fence_days;
  IF next_first <= today THEN
    next_past := greatest(next_first + span, today + 1);
    -- Attached, not made as a part: that would wait for who reads, a backup for hours, and all others behind it.
    EXECUTE format('CREATE TABLE ${schema}.%I (LIKE ${schema}.fence INCLUDING ALL)', 'fence_' || next_first);
    EXECUTE format('ALTER TABLE ${schema}.fence ATTACH PARTITION ${schema}.%I FOR VALUES FROM (%s) TO (%s)',
      'fence_' || next_first, next_first, next_past);
    INSERT INTO ${schema}.fence_days VALUES (next_first, next_past);
  END IF;
  SET LOCAL lock_timeout = '100ms';
  FOR gone IN SELECT first FROM ${schema}.fence_days WHERE past <= today - days LOOP
    BEGIN
      EXECUTE format('DROP TABLE ${schema}.%I', 'fence_' || gone);
      DELETE FROM ${schema}.fence_days WHERE first = gone;
    EXCEPTION WHEN lock_not_available THEN
      EXIT; -- another day
    END;
  END LOOP;
  RETURN today;
END $prepare$;
`
