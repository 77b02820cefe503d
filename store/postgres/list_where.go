package postgres

import (
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// where checks all filters on each row.
func (l *listing) where() string {
	f := l.f
	var b strings.Builder
	for _, and := range [...]struct {
		column string
		values []string
	}{{"r.action", f.Actions}, {"e.pool", f.Pools}, {"e.session", f.Sessions}, {"e.worker_id", f.Workers}} {
		if len(and.values) > 0 {
			b.WriteString(" AND " + l.isOne(and.column, and.values))
		}
	}
	if f.Key != "" {
		b.WriteString(" AND r.idempotency_key = " + l.arg(encodeText(f.Key)))
	}
	if len(f.Statuses) > 0 {
		b.WriteString(" AND e.status = ANY(" + l.arg(numbers(f.Statuses)) + ")")
	}
	for _, label := range f.Labels[min(1, len(f.Labels)):] {
		b.WriteString(" AND " + l.labelled(label))
	}
	if len(f.Labels) > 0 && f.Drive(l.stretch.narrow) != store.DriveLabel {
		b.WriteString(" AND " + l.labelled(f.Labels[0]))
	}
	if len(f.Errors) > 0 {
		b.WriteString(" AND (" + l.failed(f.Errors[0]))
		for _, code := range f.Errors[1:] {
			b.WriteString(" OR " + l.failed(code))
		}
		b.WriteString(")")
	}
	if f.Text != "" {
		b.WriteString(" AND " + l.holding(f))
	}
	if f.IDPrefix != "" {
		first, last, _ := f.IDRange()
		b.WriteString(" AND e.id >= " + l.arg(uuidOf(first)) + " AND e.id <= " + l.arg(uuidOf(last)))
	}
	if len(f.Was) > 0 {
		b.WriteString(" AND (" + strings.Join(wasOf(f.Was), " OR ") + ")")
	}
	if !f.From.IsZero() {
		b.WriteString(" AND r.requested_at >= " + l.arg(timeOf(f.From)))
	}
	if !f.To.IsZero() {
		b.WriteString(" AND r.requested_at < " + l.arg(timeOf(f.To)))
	}
	if !f.EndedFrom.IsZero() {
		b.WriteString(" AND e.finished_at >= " + l.arg(timeOf(f.EndedFrom)))
	}
	if !f.EndedTo.IsZero() {
		b.WriteString(" AND e.finished_at < " + l.arg(timeOf(f.EndedTo)))
	}
	l.not(&b)
	return b.String()
}

// wasSQL is what the counts of a ledger count, as countRequestedSQL does.
var wasSQL = map[store.Was]string{
	store.WasRetry: "r.original IS NOT NULL", store.WasInterrupted: "e.crash_count > 0", store.WasTakenBack: "e.take_backs > 0", store.WasStateLost: "e.session_lost",
}

func wasOf(list []store.Was) (conditions []string) {
	for _, was := range list {
		conditions = append(conditions, wasSQL[was])
	}
	return conditions
}

// holding checks that an execution has the text in its error, or in its parameters where they are searched. Bytes are read as LATIN1, which
// has a character for each, so that a part that ends within a character of UTF-8 can be searched; JSON has no zero byte, which it lacks.
func (l *listing) holding(f *store.Filter) string {
	read := func(bytes string) string { return `lower(convert_from(` + bytes + `, 'LATIN1') COLLATE "C")` }
	text := read(l.arg(store.ErrorHolds(f.Text)) + "::bytea")
	in := func(bytes string, most int) string {
		return "position(" + text + " IN " + read("substr("+bytes+", 1, "+l.arg(most)+")") + ") > 0"
	}
	sql := in(l.storedError(), store.ErrorSearched)
	if len(f.ParametersOf) > 0 {
		sql += " OR r.action = ANY(" + l.arg(encodeTexts(f.ParametersOf)) + "::text[]) AND octet_length(r.parameters) <= " + l.arg(store.ParametersMax) +
			" AND " + in("r.parameters", store.ParametersSearched)
	}
	return "(" + sql + ")"
}

// not checks what a list does not have.
func (l *listing) not(b *strings.Builder) {
	x := &l.f.Not
	for _, and := range [...]struct {
		column string
		values []string
	}{{"r.action", x.Actions}, {"e.pool", x.Pools}, {"coalesce(e.session, '')", x.Sessions}, {"coalesce(e.worker_id, '')", x.Workers}} {
		if len(and.values) == 0 {
			continue
		}
		b.WriteString(" AND " + and.column + " <> ALL(" + l.arg(encodeTexts(and.values)) + "::text[])")
	}
	if len(x.Statuses) > 0 {
		b.WriteString(" AND e.status <> ALL(" + l.arg(numbers(x.Statuses)) + ")")
	}
	for _, label := range x.Labels {
		b.WriteString(" AND NOT " + l.labelled(label))
	}
	for _, code := range x.Errors {
		b.WriteString(" AND " + l.failed(code) + " IS NOT TRUE")
	}
}

func (l *listing) labelled(label [2]string) string {
	return "EXISTS (SELECT FROM execution_label n WHERE n.key = " + l.arg(encodeText(label[0])) + " AND n.value = " + l.arg(encodeText(label[1])) + " AND n.seq = w.seq)"
}

func (l *listing) failed(code messages.Code) string {
	begins := store.ErrorBegins(code)
	return fmt.Sprintf("(substr(%s, 1, %d) = %s::bytea)", l.storedError(), len(begins), l.arg(begins))
}

// storedError is the error of an execution, which is read from another table only where it is long.
func (l *listing) storedError() string {
	of := "e"
	if strings.HasSuffix(l.columns, ", error") {
		of = "w"
	}
	return "coalesce(" + of + ".error, (SELECT long.error FROM outcome long WHERE long.seq = w.seq))"
}
