/** How many schedules `npm test` runs, from seed 1 on. */
export const SCHEDULES = 32
