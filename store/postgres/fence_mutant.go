//go:build mutant

package postgres

import (
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
)

// The planted fault no_attempt: claims and ends of runs are matched by the execution alone, so that an old attempt's
// takes effect on a newer one. The chaos suite must find it.
var (
	noAttempt    = strings.Contains(os.Getenv("TROUPE_MUTANT"), "no_attempt")
	claimAttempt = map[bool]string{false: " AND e.attempt = i.attempt", true: ""}[noAttempt]
	leanAttempt  = claimAttempt
)

func finishAttempt(a messages.Attempt) pgtype.Int4 {
	if noAttempt {
		return pgtype.Int4{}
	}
	return attemptOf(a)
}
