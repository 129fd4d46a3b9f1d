// Processes that answer from one PostgreSQL store announce each epoch together.
//
// 1. The writer stores it, and replies to its publisher. Each replica takes it up, and writes into the database that it has it.
// 2. A process that has it answers it if asked, and shows the epoch before.
// 3. Once all connected processes have it, or time is up, it is announced, and everybody shows it.
//
// The database decides, by its own clock, whichever process looks: so none is missed when a process dies. Notifications make
// this quick, and each process also looks once a second.

import { type Engine, StorageError } from '../storage/storage.js'
import { ANOTHER_PROCESS, headEpoch } from './stored-values.js'

const POLL_MILLISECONDS = 1000

/**
 * A replica is waited for as long as it is connected, and not longer than this. One that has not even what is announced is not waited
 * for: of a process that hangs, one epoch is late and not each.
 */
const PATIENCE_SECONDS = 60

const LOOK_AGAIN = 'look again'
export const SIGNED = 'signed'

/** The process that takes part. */
export interface Member {
  readonly writes: boolean
  /** The newest epoch it can answer, announced or not, … */
  has(): number
  /** … and the newest it shows. */
  shows(): number
  /** takes up what the writer has stored */
  catchUp(): Promise<void>
  /** shows an epoch, if it has it, and all before it */
  show(epoch: number): void
  /** it cannot go on */
  fail(error: Error): void
}

interface Look {
  readonly wanted: number
  readonly announced: number
  /** this look has changed something, and the others should look too */
  readonly moved: boolean
}

export class Announcements {
  readonly #engine: Engine
  readonly #member: Member
  readonly #stopListening: () => void
  #waiting: (() => void)[] = []
  #announced = 0
  #ticking: Promise<void> | undefined
  #catchingUp: Promise<void> | undefined
  #again = false
  #timer: NodeJS.Timeout | undefined
  #stopped = false
  #failure: unknown

  private constructor(engine: Engine, member: Member) {
    this.#engine = engine
    this.#member = member
    this.#stopListening = engine.listen(message => {
      if (message === '' || message === LOOK_AGAIN) this.#look()
    })
  }

  /** Resolves once what `member` has is announced, and `member` has all that is announced. */
  static async begin(engine: Engine, member: Member): Promise<Announcements> {
    await engine.query(tables(engine.schema))
    const announcements = new Announcements(engine, member)
    await announcements.announced(member.has())
    while (!announcements.#stopped && announcements.behind !== undefined) await announcements.#looked()
    if (announcements.#failure !== undefined) throw announcements.#failure
    return announcements
  }

  /** Why others are ahead, for people; undefined: they are not. */
  get behind(): string | undefined {
    const shows = this.#member.shows()
    return shows < this.#announced ? `loading epoch ${this.#announced}; still at epoch ${shows}` : undefined
  }

  /** Resolves once `epoch`, which this process has, is announced; or when this is stopped. */
  async announced(epoch: number): Promise<void> {
    this.#look()
    while (!this.#stopped && this.#announced < epoch) await this.#looked()
  }

  #looked(): Promise<void> {
    return new Promise(resolve => this.#waiting.push(resolve))
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    this.#stopListening()
    this.#wake()
    await this.#ticking
    await this.#catchingUp
    const gone = `DELETE FROM ${this.#engine.schema}.replicas WHERE id = $1`
    if (!this.#member.writes) await this.#engine.query(gone, [this.#engine.id]).catch(() => {})
    this.#engine.notify(LOOK_AGAIN)
  }

  #look(): void {
    if (this.#stopped) return
    clearTimeout(this.#timer)
    if (this.#ticking !== undefined) {
      this.#again = true
      return
    }
    this.#ticking = this.#tick()
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#ticking = undefined
        this.#wake()
        if (this.#stopped) return
        if (this.#again) this.#look()
        else this.#timer = setTimeout(() => this.#look(), POLL_MILLISECONDS)
      })
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  async #tick(): Promise<void> {
    this.#again = false
    const { writes } = this.#member
    const has = this.#member.has()
    const look = await this.#ask(has)
    this.#announced = look.announced
    if (writes && this.#engine.usurped) throw new Error(ANOTHER_PROCESS)
    if (look.wanted < has)
      throw new Error(`the store has gone back: expected epoch ${has} or later, got ${look.wanted}; restart the server`)
    if (look.wanted > has && !writes) this.#catchUp()
    this.#member.show(look.announced)
  }

  /** Goes on beside the looking: a process that takes long still has to learn what is announced. */
  #catchUp(): void {
    const has = this.#member.has()
    this.#catchingUp ??= this.#member
      .catchUp()
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#catchingUp = undefined
        if (this.#member.has() > has) this.#look()
      })
  }

  #fail(error: unknown): void {
    // Without the database no epoch is announced either: it looks again.
    if (error instanceof StorageError || this.#stopped) return
    this.#stopped = true
    this.#failure = error
    this.#wake()
    this.#member.fail(error as Error)
  }

  async #ask(has: number): Promise<Look> {
    const { schema, id } = this.#engine
    const who = this.#member.writes ? null : id
    const text = `SELECT wanted, announced, moved FROM ${schema}.look($1, $2)`
    const [look] = await this.#engine.query<Look>(text, [who, has])
    if (look!.moved) this.#engine.notify(LOOK_AGAIN)
    return look!
  }
}

const tables = (schema: string) => `
SELECT pg_advisory_xact_lock(hashtextextended('keyhush announcement tables ${schema}', 0));

CREATE TABLE IF NOT EXISTS ${schema}.announcement (
  one boolean PRIMARY KEY CHECK (one), wanted int NOT NULL, wanted_at timestamptz NOT NULL, announced int NOT NULL
);

CREATE TABLE IF NOT EXISTS ${schema}.replicas (id text PRIMARY KEY, epoch int NOT NULL);

-- Notes that a process has an epoch. Wanted is the stored one; it is announced if all have it.
CREATE OR REPLACE FUNCTION ${schema}.look(of_id text, has int, OUT wanted int, OUT announced int, OUT moved boolean)
LANGUAGE plpgsql VOLATILE AS $look$
DECLARE
  stored int;
BEGIN
  IF of_id IS NOT NULL THEN
    INSERT INTO ${schema}.replicas AS r VALUES (of_id, has)
      ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch WHERE r.epoch <> excluded.epoch;
  END IF;
  stored := (${headEpoch(schema)});
  INSERT INTO ${schema}.announcement AS t VALUES (true, stored, clock_timestamp(), stored) ON CONFLICT (one) DO UPDATE
    SET wanted = stored, wanted_at = clock_timestamp(), announced = least(t.announced, stored) WHERE t.wanted <> stored;
  moved := FOUND;
  IF moved OR EXISTS (SELECT FROM ${schema}.announcement t WHERE t.announced < t.wanted) THEN
    DELETE FROM ${schema}.replicas r WHERE NOT EXISTS (
        SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
        WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
          AND (l.classid::bigint << 32) | l.objid::bigint = hashtextextended('keyhush process ' || r.id, 0)
      );
    UPDATE ${schema}.announcement t SET announced = t.wanted
      WHERE t.announced < t.wanted AND (
        t.wanted_at < clock_timestamp() - interval '${PATIENCE_SECONDS} seconds'
        OR NOT EXISTS (SELECT FROM ${schema}.replicas r WHERE r.epoch < t.wanted AND r.epoch >= t.announced)
      );
    moved := moved OR FOUND;
  END IF;
  SELECT t.wanted, t.announced INTO STRICT wanted, announced FROM ${schema}.announcement t;
END $look$;
`
