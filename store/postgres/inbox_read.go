package postgres

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/troupe-run/troupe/store"
)

// intervalDaysMax bounds an interval that a program may have inserted. Go cannot represent a longer one, and reading it
// would give another value.
const intervalDaysMax = 100_000 // some 273 years; a time.Duration holds 292

// readForeign reads the columns that another program wrote. Their types allow values that a submission does not, for
// example an infinite time, which does not mean "at once", or an id of zeros. The first such value is kept as the
// submission's Invalid.
func readForeign(k *store.Submission, v *scanner, runAt, timeout []byte) {
	switch us, infinite := infinity(runAt); {
	case k.ID.IsZero():
		k.Invalid = "id is the nil UUID, which names nothing; leave the column out, or give each row a UUID of its own"
	case infinite:
		k.Invalid = "run_at is " + us + "; want a moment between 2000 and 2200, or NULL for at once"
	case longInterval(timeout):
		k.Invalid = "timeout is too long an interval; want a positive one of some days at most, or NULL for the action's"
	default:
		own := &scanner{row: [][]byte{runAt, timeout}}
		k.RunAt, k.Timeout = own.time(), own.duration()
		if len(runAt) > 0 && k.RunAt.IsZero() {
			k.Invalid = "run_at is in the year 1; want a moment between 2000 and 2200, or NULL for at once"
		}
		if own.err != nil {
			v.err = own.err
		}
	}
}

// infinity names an infinite timestamptz.
func infinity(b []byte) (name string, is bool) {
	if len(b) != 8 {
		return "", false
	}
	switch int64(binary.BigEndian.Uint64(b)) {
	case math.MaxInt64:
		return "infinity", true
	case math.MinInt64:
		return "-infinity", true
	}
	return "", false
}

// longInterval reports whether a time.Duration cannot hold the interval, for example an infinite one.
func longInterval(b []byte) bool {
	if len(b) != 16 {
		return false
	}
	us := int64(binary.BigEndian.Uint64(b))
	days := int64(int32(binary.BigEndian.Uint32(b[8:]))) + 30*int64(int32(binary.BigEndian.Uint32(b[12:])))
	days += us / (24 * time.Hour).Microseconds()
	return days > intervalDaysMax || days < -intervalDaysMax
}
