//go:build !mutant

package postgres

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
)

// claimAttempt is the attempt's part in the compare-and-set of a claim.
const claimAttempt = " AND e.attempt = i.attempt"

// leanAttempt is the same for the lean statement of a run's end.
const leanAttempt = " AND e.attempt = i.attempt"

// finishAttempt is the attempt's part in the compare-and-set of a run's end.
func finishAttempt(a messages.Attempt) pgtype.Int4 { return attemptOf(a) }
