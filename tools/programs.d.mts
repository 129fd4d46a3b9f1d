/** The path of an executable; undefined: it cannot be had here. Throws if an environment variable names none. */
export function findProgram(name: 'nginx' | 'caddy'): Promise<string | undefined>

/** The folder of the programs of PostgreSQL 15; undefined: it cannot be had here. */
export function findOldestPostgres(): Promise<string | undefined>
