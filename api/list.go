package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a list's filter.
const (
	listedMax   = 20  // values of one parameter
	idPrefixMin = 4   // hexadecimal digits
	textMax     = 200 // bytes of a text to search for
	notPrefix   = "not."
)

// oneOfSeveral ends the help of a parameter whose values are alternatives.
const oneOfSeveral = "; repeat it for one of several."

func listParams() []param {
	params := []param{
		{name: "status", kind: "string", many: true, help: "Only this status; repeat it, or join several with commas."},
		{name: "action", kind: "string", many: true, help: "Only this action" + oneOfSeveral},
		{name: "pool", kind: "string", many: true, help: "Only this pool" + oneOfSeveral},
		{name: "session", kind: "string", many: true, help: "Only this session" + oneOfSeveral},
		{name: "worker", kind: "string", many: true, help: "Only this worker" + oneOfSeveral},
		{name: "label", kind: "string", many: true, help: "Only with this label, as name=value; repeat it for several that must all be there."},
		{name: "error", kind: "string", many: true, help: "Only with this error code" + oneOfSeveral},
		{name: "q", kind: "string", help: "Only those that ended without a result and have this text in the beginning of their error: its code, message, type, details or stderr. Where console.payloads is show, those without a result that have it in their parameters, too; give status for others."},
		{name: "key", kind: "string", help: "Only with this idempotency key, whoever owns it."},
		{name: "id_prefix", kind: "string", help: "Only ids that begin so: at least 4 hexadecimal digits."},
		{name: "was", kind: "string", many: true, help: "Only what befell so: retry (it is the retry of another one), interrupted (by the end of a worker), taken_back (before a worker claimed it, and not claimed since) or state_lost (it was told that its session's state was lost), as the ledger counts them; repeat it for one of several."},
		{name: "from", kind: "string", help: "Only those requested at this time or later, as 2030-01-31T08:00:00Z."},
		{name: "to", kind: "string", help: "Only those requested before this time."},
		{name: "ended_from", kind: "string", help: "Only those that ended at this time or later. Without from, only what was requested up to 24 hours before it is looked at: give an earlier from for what took longer."},
		{name: "ended_to", kind: "string", help: "Only those that ended before this time."},
		{name: "order", kind: "string", help: "newest, or oldest: which come first; newest where left out."},
	}
	for _, name := range []string{"status", "action", "pool", "session", "worker", "label", "error"} {
		params = append(params, param{name: notPrefix + name, kind: "string", many: true, help: "None with this " + name + "; repeat it for several."})
	}
	return append(params, limitParam, cursorParam)
}

func (s *server) list(c *call) error {
	f, err := filterOf(c.query)
	if err != nil {
		return err
	}
	list, err := s.page(c.r.Context(), f)
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, list)
}

// page asks for one page of executions.
func (s *server) page(ctx context.Context, f store.Filter) (*ExecutionList, error) {
	page, err := s.Backend.List(ctx, f)
	if err != nil {
		return nil, err
	}
	view := ExecutionList{Executions: viewAll(page.Executions), NextCursor: numberCursor(page.Next), More: page.More}
	if page.Next != 0 {
		view.SearchedTo = &SearchedView{At: page.Searched.At, Seq: page.Searched.Seq, Walked: page.Searched.Walked}
	}
	return &view, nil
}

func filterOf(q query) (f store.Filter, err error) {
	f.Key = q.text("key")
	for _, of := range []struct {
		name string
		list *[]string
	}{{"action", &f.Actions}, {"pool", &f.Pools}, {"session", &f.Sessions}, {"worker", &f.Workers}} {
		if *of.list, err = q.several(of.name); err != nil {
			return f, err
		}
	}
	if f.Errors, err = q.codes("error"); err != nil {
		return f, err
	}
	if f.Statuses, err = q.statuses("status"); err != nil {
		return f, err
	}
	if f.Labels, err = q.labels("label"); err != nil {
		return f, err
	}
	if f.Not, err = exclusionOf(q); err != nil {
		return f, err
	}
	if f.IDPrefix, err = q.idPrefix(); err != nil {
		return f, err
	}
	if f.Was, err = q.was(); err != nil {
		return f, err
	}
	if f.Text = q.text("q"); len(f.Text) > textMax {
		return f, invalid("the text to search for, q, may have %d bytes, and has %d", textMax, len(f.Text))
	}
	for _, of := range []struct {
		name string
		at   *time.Time
	}{{"from", &f.From}, {"to", &f.To}, {"ended_from", &f.EndedFrom}, {"ended_to", &f.EndedTo}} {
		if *of.at, err = q.moment(of.name); err != nil {
			return f, err
		}
	}
	if f.Limit, err = q.number("limit", 1, 1000, 100); err != nil {
		return f, err
	}
	position, err := q.position()
	switch order := q.text("order"); order {
	case "", "newest":
		f.Before = position
	case "oldest":
		f.Oldest, f.After = true, position
	default:
		return f, invalid("order must be newest or oldest, got %q", clip(order))
	}
	return f, err
}

// codes reads error codes.
func (q query) codes(name string) (list []messages.Code, err error) {
	texts, err := q.several(name)
	for _, text := range texts {
		list = append(list, messages.Code(text))
	}
	return list, err
}

// was reads what befell executions, each alone or several joined with commas.
func (q query) was() (list []store.Was, err error) {
	for _, text := range q.all("was") {
		for word := range strings.SplitSeq(text, ",") {
			was := store.Was(word)
			if !slices.Contains(store.EachWas(), was) {
				return nil, invalid("was must be %s, got %q", words(store.EachWas()), clip(word))
			}
			if !slices.Contains(list, was) {
				list = append(list, was)
			}
		}
	}
	return list, nil
}

func exclusionOf(q query) (x store.Exclusion, err error) {
	x.Actions, x.Pools, x.Sessions, x.Workers = q.all("not.action"), q.all("not.pool"), q.all("not.session"), q.all("not.worker")
	for _, code := range q.all("not.error") {
		x.Errors = append(x.Errors, messages.Code(code))
	}
	for name, values := range map[string]int{"not.action": len(x.Actions), "not.pool": len(x.Pools), "not.session": len(x.Sessions),
		"not.worker": len(x.Workers), "not.error": len(x.Errors)} {
		if values > listedMax {
			return x, invalid("%s may be given %d times, and is %d", name, listedMax, values)
		}
	}
	if x.Statuses, err = q.statuses("not.status"); err != nil {
		return x, err
	}
	x.Labels, err = q.labels("not.label")
	return x, err
}

// statuses reads a parameter of statuses, each alone or several joined with commas.
func (q query) statuses(name string) (list []messages.Status, err error) {
	for _, text := range q.all(name) {
		for word := range strings.SplitSeq(text, ",") {
			status, err := messages.ParseStatus(word)
			if err != nil {
				return nil, invalid("%s must be %s, got %q", name, statusWords(messages.Statuses()), clip(word))
			}
			if list = append(list, status); len(list) > listedMax {
				return nil, invalid("%s may have %d statuses", name, listedMax)
			}
		}
	}
	return list, nil
}

// statusWords are statuses in a sentence.
func statusWords(statuses []messages.Status) string {
	names := make([]string, len(statuses))
	for i, s := range statuses {
		names[i] = s.String()
	}
	return words(names)
}

// labels reads a parameter of labels, as name=value.
func (q query) labels(name string) (list [][2]string, err error) {
	for _, text := range q.all(name) {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, invalid("%s must be name=value, got %q", name, clip(text))
		}
		list = append(list, [2]string{key, value})
	}
	if len(list) > listedMax {
		return nil, invalid("%s may be given %d times, and is %d", name, listedMax, len(list))
	}
	return list, nil
}

// idPrefix reads the beginning of an id, with or without its dashes.
func (q query) idPrefix() (string, error) {
	text := q.text("id_prefix")
	digits := strings.ToLower(strings.ReplaceAll(text, "-", ""))
	f := store.Filter{IDPrefix: digits}
	if _, _, ok := f.IDRange(); text != "" && (!ok || len(digits) < idPrefixMin) {
		return "", invalid("id_prefix must be %d to 32 hexadecimal digits, got %q", idPrefixMin, clip(text))
	}
	return digits, nil
}
