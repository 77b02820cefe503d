package sqlite

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// checks are the conditions of a statement, which all hold, and their arguments.
type checks struct {
	sql  strings.Builder // each behind " AND "
	args []any
}

func (k *checks) and(condition string, args ...any) {
	k.sql.WriteString(" AND " + condition)
	k.args = append(k.args, args...)
}

// alternatives are conditions of which one holds, and their arguments.
type alternatives struct {
	sql  []string
	args []any
}

func (a *alternatives) or(condition string, args ...any) {
	a.sql = append(a.sql, condition)
	a.args = append(a.args, args...)
}

// any checks that one of the alternatives holds.
func (k *checks) any(a alternatives) {
	if len(a.sql) > 0 {
		k.and("("+strings.Join(a.sql, " OR ")+")", a.args...)
	}
}

// none checks that none of the alternatives holds. One that the row has nothing for does not.
func (k *checks) none(a alternatives) {
	if len(a.sql) > 0 {
		k.and("("+strings.Join(a.sql, " OR ")+") IS NOT TRUE", a.args...)
	}
}

// where checks all filters on each row.
func (l *listing) where() (sql string, args []any) {
	f, k := l.f, &checks{}
	for _, one := range [...]struct {
		column string
		values []string
	}{{"r.action", f.Actions}, {"e.pool", f.Pools}, {"e.session", f.Sessions}, {"e.worker_id", f.Workers}, {"r.idempotency_key", f.Keys}} {
		if len(one.values) > 0 {
			k.and(isOne(one.column, one.values), texts(one.values)...)
		}
	}
	if len(f.Statuses) > 0 {
		k.and("e.status IN ("+places(len(f.Statuses))+")", numbers(f.Statuses)...)
	}
	for i, set := range f.LabelSets() {
		if i > 0 || l.drive != store.DriveLabel {
			k.and(labelled(len(set.Values)), append([]any{set.Name}, texts(set.Values)...)...)
		}
	}
	k.any(failedWith(f.Errors))
	k.any(l.holding(f.Texts))
	k.any(withIDs(f.IDPrefixes))
	k.any(befallen(f.Was))
	if !f.From.IsZero() {
		k.and("r.requested_at >= ?", micros(f.From))
	}
	if !f.To.IsZero() {
		k.and("r.requested_at < ?", micros(f.To))
	}
	if f.Ends() {
		k.and("e.finished_at <> 0")
	}
	if !f.EndedFrom.IsZero() {
		k.and("e.finished_at >= ?", micros(f.EndedFrom))
	}
	if !f.EndedTo.IsZero() {
		k.and("e.finished_at < ?", micros(f.EndedTo))
	}
	l.not(k)
	return k.sql.String(), k.args
}

// not checks what a list does not have.
func (l *listing) not(k *checks) {
	x := &l.f.Not
	for _, none := range [...]struct {
		column string
		values []string
	}{
		{"r.action", x.Actions}, {"e.pool", x.Pools}, {"coalesce(e.session, '')", x.Sessions}, {"coalesce(e.worker_id, '')", x.Workers},
		{"coalesce(r.idempotency_key, '')", x.Keys},
	} {
		if len(none.values) > 0 {
			k.and(none.column+" NOT IN ("+places(len(none.values))+")", texts(none.values)...)
		}
	}
	if len(x.Statuses) > 0 {
		k.and("e.status NOT IN ("+places(len(x.Statuses))+")", numbers(x.Statuses)...)
	}
	for _, set := range x.LabelSets() {
		k.and("NOT "+labelled(len(set.Values)), append([]any{set.Name}, texts(set.Values)...)...)
	}
	k.none(failedWith(x.Errors))
	k.none(l.holding(x.Texts))
	k.none(withIDs(x.IDPrefixes))
	k.none(befallen(x.Was))
}

// labelled checks that an execution has a label, with one of so many values. Its parameters are the label's name and the values.
func labelled(values int) string {
	return "EXISTS (SELECT 1 FROM execution_label n WHERE n.key = ? AND n.value IN (" + places(values) + ") AND n.seq = e.seq)"
}

// storedError is read from another table only where it is long.
const storedError = "coalesce(e.error, (SELECT o.error FROM outcome o WHERE o.seq = e.seq))"

// failedWith matches an error with one of the codes.
func failedWith(codes []messages.Code) (a alternatives) {
	for _, code := range codes {
		begins := store.ErrorBegins(code)
		a.or("substr("+storedError+", 1, ?) IS ?", int64(len(begins)), begins)
	}
	return a
}

// holding matches an execution with one of the texts in its error, or in its parameters where they are searched. lower changes ASCII letters only.
func (l *listing) holding(list []string) (a alternatives) {
	actions, _ := json.Marshal(l.f.ParametersOf) // texts always encode
	for _, one := range list {
		text := store.ErrorHolds(one)
		a.or("instr(lower(CAST(substr("+storedError+", 1, ?) AS TEXT)), lower(CAST(? AS TEXT))) > 0", int64(store.ErrorSearched), text)
		if len(l.f.ParametersOf) > 0 {
			a.or("r.action IN (SELECT value FROM json_each(CAST(? AS TEXT))) AND length(r.parameters) <= ? AND "+
				"instr(lower(CAST(substr(r.parameters, 1, ?) AS TEXT)), lower(CAST(? AS TEXT))) > 0",
				actions, int64(store.ParametersMax), int64(store.ParametersSearched), text)
		}
	}
	return a
}

// withIDs matches an id that begins with one of the prefixes.
func withIDs(prefixes []string) (a alternatives) {
	for _, ids := range store.IDRanges(prefixes) {
		a.or("r.id >= ? AND r.id <= ?", ids[0][:], ids[1][:])
	}
	return a
}

// befallenSQL is what the counts of a ledger count, as countSlice does.
var befallenSQL = map[store.Was]string{
	store.WasRetry: "NOT r.original IS NULL", store.WasInterrupted: "e.crash_count > 0", store.WasTakenBack: "e.take_backs > 0",
	store.WasStateLost: fmt.Sprintf("e.session_flags & %d <> 0", flagLost),
}

// befallen matches an execution to which one of these happened.
func befallen(list []store.Was) (a alternatives) {
	for _, was := range list {
		a.or(befallenSQL[was])
	}
	return a
}

// places are the places of so many parameters.
func places(n int) string { return "?" + strings.Repeat(", ?", n-1) }
