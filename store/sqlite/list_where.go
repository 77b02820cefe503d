package sqlite

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/store"
)

// where checks all filters on each row.
func (l *listing) where() (sql string, args []any) {
	f := l.f
	and := func(condition string, values ...any) { sql, args = sql+" AND "+condition, append(args, values...) }
	for _, one := range [...]struct {
		column string
		values []string
	}{{"r.action", f.Actions}, {"e.pool", f.Pools}, {"e.session", f.Sessions}, {"e.worker_id", f.Workers}} {
		if len(one.values) > 0 {
			and(isOne(one.column, one.values), texts(one.values)...)
		}
	}
	if f.Key != "" {
		and("r.idempotency_key = ?", f.Key)
	}
	if len(f.Statuses) > 0 {
		and("e.status IN ("+places(len(f.Statuses))+")", numbers(f.Statuses)...)
	}
	for i, label := range f.Labels {
		if i > 0 || l.drive != store.DriveLabel {
			and(labelled, label[0], label[1])
		}
	}
	if len(f.Errors) > 0 {
		and("("+failedWith+strings.Repeat(" OR "+failedWith, len(f.Errors)-1)+")", beginnings(f.Errors)...)
	}
	switch text := store.ErrorHolds(f.Text); {
	case f.Text == "":
	case len(f.ParametersOf) > 0:
		actions, _ := json.Marshal(f.ParametersOf) // texts always encode
		and("("+failedHolding+" OR "+askedHolding+")", int64(store.ErrorSearched), text, actions, int64(store.ParametersMax), int64(store.ParametersSearched), text)
	default:
		and(failedHolding, int64(store.ErrorSearched), text)
	}
	if f.IDPrefix != "" {
		first, last, _ := f.IDRange()
		and("r.id >= ? AND r.id <= ?", first[:], last[:])
	}
	if len(f.Was) > 0 {
		conditions := make([]string, len(f.Was))
		for i, was := range f.Was {
			conditions[i] = wasSQL[was]
		}
		and("(" + strings.Join(conditions, " OR ") + ")")
	}
	if !f.From.IsZero() {
		and("r.requested_at >= ?", micros(f.From))
	}
	if !f.To.IsZero() {
		and("r.requested_at < ?", micros(f.To))
	}
	if f.Ends() {
		and("e.finished_at <> 0")
	}
	if !f.EndedFrom.IsZero() {
		and("e.finished_at >= ?", micros(f.EndedFrom))
	}
	if !f.EndedTo.IsZero() {
		and("e.finished_at < ?", micros(f.EndedTo))
	}
	l.not(and)
	return sql, args
}

// wasSQL is what the counts of a ledger count, as countSlice does.
var wasSQL = map[store.Was]string{
	store.WasRetry: "NOT r.original IS NULL", store.WasInterrupted: "e.crash_count > 0", store.WasTakenBack: "e.take_backs > 0",
	store.WasStateLost: fmt.Sprintf("e.session_flags & %d <> 0", flagLost),
}

const (
	labelled = "EXISTS (SELECT 1 FROM execution_label n WHERE n.key = ? AND n.value = ? AND n.seq = e.seq)"
	// storedError is read from another table only where it is long.
	storedError = "coalesce(e.error, (SELECT o.error FROM outcome o WHERE o.seq = e.seq))"
	failedWith  = "substr(" + storedError + ", 1, ?) IS ?"
	// lower changes ASCII letters only.
	failedHolding = "instr(lower(CAST(substr(" + storedError + ", 1, ?) AS TEXT)), lower(CAST(? AS TEXT))) > 0"
	askedHolding  = " r.action IN (SELECT value FROM json_each(CAST(? AS TEXT))) AND length(r.parameters) <= ? AND " +
		"instr(lower(CAST(substr(r.parameters, 1, ?) AS TEXT)), lower(CAST(? AS TEXT))) > 0"
)

// not checks what a list does not have.
func (l *listing) not(and func(condition string, values ...any)) {
	x := &l.f.Not
	for _, none := range [...]struct {
		column string
		values []string
	}{{"r.action", x.Actions}, {"e.pool", x.Pools}, {"coalesce(e.session, '')", x.Sessions}, {"coalesce(e.worker_id, '')", x.Workers}} {
		if len(none.values) == 0 {
			continue
		}
		and(none.column+" NOT IN ("+places(len(none.values))+")", texts(none.values)...)
	}
	if len(x.Statuses) > 0 {
		and("e.status NOT IN ("+places(len(x.Statuses))+")", numbers(x.Statuses)...)
	}
	for _, label := range x.Labels {
		and("NOT "+labelled, label[0], label[1])
	}
	for i := range x.Errors {
		and("NOT "+failedWith, beginnings(x.Errors[i:i+1])...)
	}
}

// places are the places of so many parameters.
func places(n int) string { return "?" + strings.Repeat(", ?", n-1) }
