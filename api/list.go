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
	textsMax    = 5   // texts to search for; each is looked for in the errors that a page reads
	textMax     = 200 // bytes of one
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
		{name: "label", kind: "string", many: true, help: "Only with this label, as name=value; repeat it for one of several values of a name, and for several names that must all be there."},
		{name: "error", kind: "string", many: true, help: "Only with this error code" + oneOfSeveral},
		{name: "q", kind: "string", many: true, help: "Only those that ended without a result and have this text in the beginning of their error: its code, message, type, details or stderr. Where console.payloads is show, those without a result that have it in their parameters, too; give status for others. Repeat it for one of several."},
		{name: "key", kind: "string", many: true, help: "Only with this idempotency key, whoever owns it" + oneOfSeveral},
		{name: "id_prefix", kind: "string", many: true, help: "Only ids that begin so: at least 4 hexadecimal digits" + oneOfSeveral},
		{name: "was", kind: "string", many: true, help: "Only what befell so: retry (it is the retry of another one), interrupted (by the end of a worker), taken_back (before a worker claimed it, and not claimed since) or state_lost (it was told that its session's state was lost), as the ledger counts them; repeat it for one of several."},
		{name: "from", kind: "string", help: "Only those requested at this time or later, as 2030-01-31T08:00:00Z."},
		{name: "to", kind: "string", help: "Only those requested before this time."},
		{name: "ended_from", kind: "string", help: "Only those that ended at this time or later. Without from, only what was requested up to 24 hours before it is looked at: give an earlier from for what took longer."},
		{name: "ended_to", kind: "string", help: "Only those that ended before this time."},
		{name: "order", kind: "string", help: "newest, or oldest: which come first; newest where left out."},
	}
	for _, of := range [][2]string{
		{"status", "with this status"}, {"action", "with this action"}, {"pool", "with this pool"}, {"session", "with this session"}, {"worker", "with this worker"},
		{"label", "with this label"}, {"error", "with this error"}, {"q", "with this text in its error, or in its parameters where they are searched"},
		{"key", "with this idempotency key"}, {"id_prefix", "whose id begins so"}, {"was", "that befell so"},
	} {
		params = append(params, param{name: notPrefix + of[0], kind: "string", many: true, help: "None " + of[1] + "; repeat it for several."})
	}
	return append(params, limitParam, cursorParam)
}

func (s *server) list(c *call) error {
	f, err := filterOf(c.query)
	if err != nil {
		return err
	}
	if err := c.answer.Admit(c.r.Context(), int64(max(f.Limit, 100))*answerRow); err != nil {
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
	for _, of := range []struct {
		name string
		list *[]string
	}{{"action", &f.Actions}, {"pool", &f.Pools}, {"session", &f.Sessions}, {"worker", &f.Workers}, {"key", &f.Keys}} {
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
	if f.IDPrefixes, err = q.idPrefixes("id_prefix"); err != nil {
		return f, err
	}
	if f.Was, err = q.was("was"); err != nil {
		return f, err
	}
	if f.Texts, err = q.texts("q"); err != nil {
		return f, err
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
func (q query) was(name string) (list []store.Was, err error) {
	for _, text := range q.all(name) {
		for word := range strings.SplitSeq(text, ",") {
			was := store.Was(word)
			if !slices.Contains(store.EachWas(), was) {
				return nil, invalid("%s must be %s, got %q", name, words(store.EachWas()), clip(word))
			}
			if !slices.Contains(list, was) {
				list = append(list, was)
			}
		}
	}
	return list, nil
}

// emptyTaken are the parameters of which an empty value is one, too: with not.session= a list has what has a session.
var emptyTaken = []string{notPrefix + "action", notPrefix + "pool", notPrefix + "session", notPrefix + "worker", notPrefix + "key"}

// exclusionOf reads the parameters of what a list does not have.
func exclusionOf(q query) (x store.Exclusion, err error) {
	for _, of := range []struct {
		name string
		list *[]string
	}{{"action", &x.Actions}, {"pool", &x.Pools}, {"session", &x.Sessions}, {"worker", &x.Workers}, {"key", &x.Keys}} {
		if *of.list, err = bounded(notPrefix+of.name, q.all(notPrefix+of.name)); err != nil {
			return x, err
		}
	}
	if x.Errors, err = q.codes(notPrefix + "error"); err != nil {
		return x, err
	}
	if x.Statuses, err = q.statuses(notPrefix + "status"); err != nil {
		return x, err
	}
	if x.Labels, err = q.labels(notPrefix + "label"); err != nil {
		return x, err
	}
	if x.IDPrefixes, err = q.idPrefixes(notPrefix + "id_prefix"); err != nil {
		return x, err
	}
	if x.Was, err = q.was(notPrefix + "was"); err != nil {
		return x, err
	}
	x.Texts, err = q.texts(notPrefix + "q")
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

// idPrefixes reads the beginnings of ids, with or without their dashes.
func (q query) idPrefixes(name string) (list []string, err error) {
	texts, err := q.several(name)
	for _, text := range texts {
		digits := strings.ToLower(strings.ReplaceAll(text, "-", ""))
		if !store.IsIDPrefix(digits) || len(digits) < idPrefixMin {
			return nil, invalid("%s must be %d to 32 hexadecimal digits, got %q", name, idPrefixMin, clip(text))
		}
		list = append(list, digits)
	}
	return list, err
}

// texts reads texts to search for.
func (q query) texts(name string) ([]string, error) {
	list, err := q.several(name)
	if err != nil {
		return nil, err
	}
	if len(list) > textsMax {
		return nil, invalid("%s may be given %d times, and is %d", name, textsMax, len(list))
	}
	for _, text := range list {
		if len(text) > textMax {
			return nil, invalid("the text to search for, %s, may have %d bytes, and has %d", name, textMax, len(text))
		}
	}
	return list, nil
}
