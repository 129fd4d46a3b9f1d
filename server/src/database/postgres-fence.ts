// The fence in a PostgreSQL database that several processes share. A verdict is one call of a function in the database, which
// locks the hint, compares, writes and commits: if two requests race for an entry, one wins.
//
// - Entries have no checksum: opening a store insists on data_checksums, so that a damaged page is an error, not a verdict.
// - The day is the latest that any process has reached (fence-clock.ts). New entries expire by the database's clock.
// - Entries are counted now and then, which may take long: only registrations on a new day wait for it. In between each process
//   counts its own, so that the limits may be exceeded by what the others add meanwhile.

import type { FenceRequest, FenceVerdict } from '@keyhush/protocol'
import type { Engine } from '../storage/storage.js'
import { Fence, type FenceOptions, NEW_SECONDS } from './fence.js'
import { FenceClock, type StoredDay } from './fence-clock.js'

/** Entries of a kind that are removed together, at most once a second. */
const EXPIRED_TOGETHER = 1000
const COUNTED_FOR_SECONDS = 10 * 60

interface Judged {
  readonly verdict: FenceVerdict | 'full'
  /** it registered another hint */
  readonly took: boolean
  /** by how much it changed the numbers of entries */
  readonly confirmed: number
  readonly registered: number
  /** the latest that any process has reached */
  readonly day: number
}

export class PostgresFence extends Fence {
  readonly #engine: Engine
  protected registered = 0
  #countedAt = Number.NEGATIVE_INFINITY
  /** settles once the entries have been counted on the latest new day */
  #counted: Promise<void> = Promise.resolve()
  #expiredAt = Number.NEGATIVE_INFINITY
  /** the latest day that was sent to the database */
  #begun: { readonly day: number; readonly done: Promise<void> } | undefined

  private constructor(engine: Engine, clock: FenceClock, options: FenceOptions) {
    super(clock, options)
    this.#engine = engine
  }

  static async open(engine: Engine, options: FenceOptions = {}): Promise<PostgresFence> {
    await engine.query(tables(engine.schema))
    const [stored] = await engine.query<StoredDay>(`SELECT day, calendar FROM ${engine.schema}.fence_clock`)
    const fence = new PostgresFence(engine, new FenceClock(stored, options), options)
    await fence.#beginDay()
    await fence.#counted
    return fence
  }

  async judge(request: FenceRequest, network = 'unknown'): Promise<FenceVerdict> {
    await this.#beginDay()
    const registers = request.kind === 'register'
    if (registers) {
      await this.#counted
      await this.#removeExpired()
      if (this.clock.seconds - this.#countedAt > COUNTED_FOR_SECONDS) this.#count().catch(() => {})
    }
    const isShared = registers && this.shares.take(network)
    let judged: Judged | undefined
    try {
      judged = await this.#ask(request, isShared)
    } finally {
      if (isShared && !judged?.took) this.shares.giveBack(network)
    }
    this.clock.advance(judged.day)
    this.confirmed += judged.confirmed
    this.registered += judged.registered
    if (judged.verdict !== 'full') return judged.verdict
    return this.turnAway()
  }

  async #ask({ kind, hintId, version, requestHash }: FenceRequest, isShared: boolean): Promise<Judged> {
    const makesRoom = this.registered >= this.mostNew || this.hints >= this.most
    const [judged] = await this.#engine.query<Judged>(
      `SELECT verdict, took, confirmed, registered, day FROM ${this.#engine.schema}.fence_judge($1, $2, $3, $4, $5, $6, $7, $8)`,
      [
        Buffer.from(hintId),
        kind === 'register',
        version,
        Buffer.from(requestHash),
        this.clock.today,
        this.days,
        isShared && this.confirmed < this.most,
        makesRoom,
      ],
    )
    return judged!
  }

  /** Tells the database which day it is, and learns which day other processes have reached. */
  async #beginDay(): Promise<void> {
    const { day, calendar } = this.clock.now
    if (this.#begun?.day !== day) {
      const text = `INSERT INTO ${this.#engine.schema}.fence_clock AS c VALUES (true, $1, $2) ON CONFLICT (one) DO UPDATE
        SET day = greatest(c.day, excluded.day), calendar = greatest(c.calendar, excluded.calendar) RETURNING day`
      const done = this.#engine.query<{ day: number }>(text, [day, calendar]).then(([row]) => {
        this.clock.advance(row!.day)
        this.#counted = this.#count().catch(() => {}) // the next registration tries again
      })
      this.#begun = { day, done }
      done.catch(() => {
        this.#begun = undefined // the next request tries again
      })
    }
    await this.#begun!.done
  }

  /** Removes some expired entries, at most once a second. */
  async #removeExpired(): Promise<void> {
    const { seconds, today } = this.clock
    if (seconds === this.#expiredAt) return
    this.#expiredAt = seconds
    const second = `extract(epoch FROM now())::bigint - ${NEW_SECONDS}`
    this.registered -= await this.#removeFirst('since', `since IS NOT NULL AND since < ${second}`)
    this.confirmed -= await this.#removeFirst('day', `since IS NULL AND day < ${today - this.days}`)
  }

  /** Removes the first entries for which `condition` holds, by a column. Returns how many. */
  async #removeFirst(column: 'since' | 'day', condition: string): Promise<number> {
    const { schema } = this.#engine
    const gone = await this.#engine.query(
      `DELETE FROM ${schema}.fence WHERE hint IN (
         SELECT hint FROM ${schema}.fence WHERE ${condition} ORDER BY ${column} LIMIT ${EXPIRED_TOGETHER} FOR UPDATE SKIP LOCKED
       ) RETURNING 1`,
    )
    return gone.length
  }

  async #count(): Promise<void> {
    const { schema } = this.#engine
    this.#countedAt = this.clock.seconds
    try {
      const [count] = await this.#engine.query<{ confirmed: number; registered: number }>(
        `SELECT count(*)::int - count(since)::int AS confirmed, count(since)::int AS registered FROM ${schema}.fence`,
      )
      this.confirmed = count!.confirmed
      this.registered = count!.registered
    } catch (error) {
      this.#countedAt = Number.NEGATIVE_INFINITY
      throw error
    }
  }
}

/** Tables and functions, which each process makes if they are not there. */
const tables = (schema: string) => `
SELECT pg_advisory_xact_lock(hashtextextended('keyhush fence tables ${schema}', 0));

CREATE TABLE IF NOT EXISTS ${schema}.fence_clock (one boolean PRIMARY KEY CHECK (one), day int NOT NULL, calendar int NOT NULL);

-- since: of those that were registered and not confirmed, when, in seconds since 1970
CREATE TABLE IF NOT EXISTS ${schema}.fence (
  hint bytea PRIMARY KEY,
  day int NOT NULL,
  version bigint NOT NULL,
  request bytea NOT NULL,
  since bigint
);
CREATE INDEX IF NOT EXISTS fence_day ON ${schema}.fence (day) WHERE since IS NULL;
CREATE INDEX IF NOT EXISTS fence_since ON ${schema}.fence (since) WHERE since IS NOT NULL;

-- The table of docs/protocol.md, Rollback fence. Two calls for one hint happen one after the other, wherever they come from.
CREATE OR REPLACE FUNCTION ${schema}.fence_judge(
  of_hint bytea, registers boolean, to_version bigint, to_request bytea,
  today int, days int, has_room boolean, makes_room boolean,
  OUT verdict text, OUT took boolean, OUT confirmed int, OUT registered int, OUT day int
) LANGUAGE plpgsql VOLATILE AS $judge$
DECLARE
  kept record;
  is_kept boolean;
  now_second constant bigint := extract(epoch FROM now())::bigint;
  nothing constant bytea := '\\x${'00'.repeat(32)}';
BEGIN
  -- What only compares would pass at a standby, which may be behind.
  IF current_setting('transaction_read_only')::boolean THEN
    RAISE EXCEPTION 'this server only reads' USING ERRCODE = 'read_only_sql_transaction';
  END IF;
  took := false;
  confirmed := 0;
  registered := 0;
  PERFORM pg_advisory_xact_lock(hashtextextended('${schema} ' || encode(of_hint, 'hex'), 0));

  SELECT greatest(today, c.day) INTO STRICT today FROM ${schema}.fence_clock c;
  day := today;
  SELECT f.* INTO kept FROM ${schema}.fence f WHERE f.hint = of_hint;
  is_kept := FOUND;
  IF is_kept AND (kept.since < now_second - ${NEW_SECONDS} OR kept.since IS NULL AND kept.day < today - days) THEN
    DELETE FROM ${schema}.fence f WHERE f.hint = of_hint;
    IF kept.since IS NULL THEN confirmed := -1; ELSE registered := -1; END IF;
    is_kept := false;
  END IF;

  IF registers AND NOT is_kept THEN
    verdict := 'full';
    IF NOT has_room THEN RETURN; END IF;
    IF makes_room AND registered = 0 THEN
      DELETE FROM ${schema}.fence WHERE hint = (
        SELECT f.hint FROM ${schema}.fence f WHERE f.since IS NOT NULL ORDER BY f.since LIMIT 1 FOR UPDATE SKIP LOCKED
      );
      IF NOT FOUND THEN RETURN; END IF;
      registered := -1;
    END IF;
    INSERT INTO ${schema}.fence VALUES (of_hint, today, 0, to_request, now_second);
    took := true;
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
  IF kept.since IS NOT NULL THEN
    confirmed := confirmed + 1;
    registered := registered - 1;
  END IF;
  IF kept.since IS NOT NULL OR kept.version <> to_version OR kept.request <> to_request OR kept.day < today THEN
    UPDATE ${schema}.fence f SET day = greatest(kept.day, today), version = to_version, request = to_request, since = NULL
      WHERE f.hint = of_hint;
    IF NOT FOUND THEN -- another call has just removed it
      verdict := 'refused';
      confirmed := 0;
      registered := 0;
    END IF;
  END IF;
END $judge$;
`
