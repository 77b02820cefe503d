package sqlite

import "github.com/troupe-run/troupe/store"

// The statements of the changes. Each ends with the guard, whose arguments are last. It sets the indexed columns rank,
// on_worker and unusual only if the change moves them.
const guard = " WHERE seq = ? AND status = ? AND attempt = ?"

var (
	updatePlace = store.Statement(`UPDATE execution SET rank = NULL, room = zeroblob(40), on_worker = 1, status = {scheduled}, attempt = ?,
 last_change = {place}, worker_inc = ?, worker_slot = ?, worker_id = ?, generation = 0, placed_by = ?, first_placed_at = ?, scheduled_at = ?,
 claim_by = ?, session_epoch = ?, session_flags = ?` + guard)
	updateRequeue = store.Statement(`UPDATE execution SET rank = ?, on_worker = NULL, status = {requested}, attempt = ?, last_change = ?, run_at = ?,
 take_backs = ?, crash_count = ?, first_placed_at = ?, worker_inc = NULL, worker_slot = 0, worker_id = NULL, generation = 0, placed_by = NULL, scheduled_at = 0,
 claim_by = 0, run_deadline = 0, session_epoch = 0, session_flags = 0` + guard)
	updateClaim = store.Statement(`UPDATE execution SET status = {running}, room = zeroblob(24), last_change = {claim}, generation = ?, take_backs = 0,
 started_at = ?, run_deadline = ?` + guard)
	// updateStart is the claim of an execution that was handed over directly, which also places it.
	updateStart = store.Statement(`UPDATE execution SET rank = NULL, room = zeroblob(24), on_worker = 1, status = {running}, attempt = ?,
 last_change = {claim}, worker_inc = ?, worker_slot = ?, worker_id = ?, generation = ?, placed_by = ?, take_backs = 0, first_placed_at = ?,
 started_at = ?, run_deadline = ?` + guard)
	updateCancelling = store.Statement("UPDATE execution SET status = {cancelling}, last_change = {cancel}" + guard)
	updateCompleted  = store.Statement(`UPDATE execution SET on_worker = NULL, room = NULL, status = {completed}, last_change = ?, finished_at = ?, result = ?,
 error = ?` + guard)
	updateRestored = `UPDATE execution SET session_flags = ?` + guard
	updateEnded    = `UPDATE execution SET rank = NULL, on_worker = NULL, room = NULL, status = ?, last_change = ?, crash_count = ?,
 finished_at = ?, retried_as = ?, result = ?, error = ?, unusual = nullif(?, 0)` + guard
)
