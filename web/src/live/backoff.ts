/** The wait before the next try after n failures: 1 to 30 s, with jitter. */
export function backOff(failures: number, random = Math.random()): number {
  return Math.min(1000 * 2 ** Math.min(failures - 1, 5), 30_000) * (0.75 + random / 4)
}
