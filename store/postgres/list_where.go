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
	}{{"r.action", f.Actions}, {"e.pool", f.Pools}, {"e.session", f.Sessions}, {"e.worker_id", f.Workers}, {"r.idempotency_key", f.Keys}} {
		if len(and.values) > 0 {
			b.WriteString(" AND " + l.isOne(and.column, and.values))
		}
	}
	if len(f.Statuses) > 0 {
		b.WriteString(" AND e.status = ANY(" + l.arg(numbers(f.Statuses)) + ")")
	}
	for i, set := range f.LabelSets() {
		if i > 0 || f.Drive(l.stretch.narrow) != store.DriveLabel {
			b.WriteString(" AND " + l.labelled(set.Name, set.Values))
		}
	}
	for _, one := range [...][]string{l.failedWith(f.Errors), l.holding(f.Texts), l.withIDs(f.IDPrefixes), befallen(f.Was)} {
		if len(one) > 0 {
			b.WriteString(" AND (" + strings.Join(one, " OR ") + ")")
		}
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

// befallenSQL is what the counts of a ledger count, as countRequestedSQL does.
var befallenSQL = map[store.Was]string{
	store.WasRetry: "r.original IS NOT NULL", store.WasInterrupted: "e.crash_count > 0", store.WasTakenBack: "e.take_backs > 0", store.WasStateLost: "e.session_lost",
}

// befallen are the conditions of which one holds for what met one of these.
func befallen(list []store.Was) (conditions []string) {
	for _, was := range list {
		conditions = append(conditions, befallenSQL[was])
	}
	return conditions
}

// holding are the conditions of which one holds for an execution that has one of the texts in its error, or in its parameters where they are
// searched. Bytes are read as LATIN1, which has a character for each, so that a part that ends within a character of UTF-8 can be searched;
// JSON has no zero byte, which it lacks.
func (l *listing) holding(texts []string) (conditions []string) {
	read := func(bytes string) string { return `lower(convert_from(` + bytes + `, 'LATIN1') COLLATE "C")` }
	for _, one := range texts {
		text := read(l.arg(store.ErrorHolds(one)) + "::bytea")
		in := func(bytes string, most int) string {
			return "position(" + text + " IN " + read("substr("+bytes+", 1, "+l.arg(most)+")") + ") > 0"
		}
		conditions = append(conditions, in(l.storedError(), store.ErrorSearched))
		if actions := l.f.ParametersOf; len(actions) > 0 {
			conditions = append(conditions, "r.action = ANY("+l.arg(encodeTexts(actions))+"::text[]) AND octet_length(r.parameters) <= "+l.arg(store.ParametersMax)+
				" AND "+in("r.parameters", store.ParametersSearched))
		}
	}
	return conditions
}

// withIDs are the conditions of which one holds for an id that begins with one of the prefixes.
func (l *listing) withIDs(prefixes []string) (conditions []string) {
	for _, ids := range store.IDRanges(prefixes) {
		conditions = append(conditions, "e.id >= "+l.arg(uuidOf(ids[0]))+" AND e.id <= "+l.arg(uuidOf(ids[1])))
	}
	return conditions
}

// not checks what a list does not have.
func (l *listing) not(b *strings.Builder) {
	x := &l.f.Not
	for _, and := range [...]struct {
		column string
		values []string
	}{{"r.action", x.Actions}, {"e.pool", x.Pools}, {"coalesce(e.session, '')", x.Sessions}, {"coalesce(e.worker_id, '')", x.Workers},
		{"coalesce(r.idempotency_key, '')", x.Keys}} {
		if len(and.values) == 0 {
			continue
		}
		b.WriteString(" AND " + and.column + " <> ALL(" + l.arg(encodeTexts(and.values)) + "::text[])")
	}
	if len(x.Statuses) > 0 {
		b.WriteString(" AND e.status <> ALL(" + l.arg(numbers(x.Statuses)) + ")")
	}
	for _, set := range x.LabelSets() { // in a form that is no join: with many joins the server may choose to walk all requests
		b.WriteString(" AND " + l.labelled(set.Name, set.Values) + " IS NOT TRUE")
	}
	// What an execution has nothing for does not hold.
	for _, none := range [...][]string{l.failedWith(x.Errors), l.holding(x.Texts), l.withIDs(x.IDPrefixes), befallen(x.Was)} {
		if len(none) > 0 {
			b.WriteString(" AND (" + strings.Join(none, " OR ") + ") IS NOT TRUE")
		}
	}
}

func (l *listing) labelled(name string, values []string) string {
	return "EXISTS (SELECT FROM execution_label n WHERE n.key = " + l.arg(encodeText(name)) + " AND " + l.isOne("n.value", values) + " AND n.seq = w.seq)"
}

// failedWith are the conditions of which one holds for an error with one of the codes.
func (l *listing) failedWith(codes []messages.Code) (conditions []string) {
	for _, code := range codes {
		begins := store.ErrorBegins(code)
		conditions = append(conditions, fmt.Sprintf("substr(%s, 1, %d) = %s::bytea", l.storedError(), len(begins), l.arg(begins)))
	}
	return conditions
}

// storedError is the error of an execution, which is read from another table only where it is long.
func (l *listing) storedError() string {
	of := "e"
	if strings.HasSuffix(l.columns, ", error") {
		of = "w"
	}
	return "coalesce(" + of + ".error, (SELECT long.error FROM outcome long WHERE long.seq = w.seq))"
}
