/** The path of an executable; undefined: there is none on this machine. Throws if an environment variable names a missing file. */
export function findProgram(name: 'nginx' | 'caddy'): Promise<string | undefined>

/** The folder with the programs of PostgreSQL 15; undefined: there is none on this machine. */
export function findOldestPostgres(): Promise<string | undefined>
