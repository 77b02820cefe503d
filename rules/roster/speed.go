package roster

import "time"

// P90 is the 90th percentile of the pool's recent run times, 0 while too few have run.
func (r *Roster) P90() time.Duration {
	p90, ok := r.times.p90()
	if !ok {
		return 0
	}
	return p90
}
