package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// JournalList is a page of the journal, newest first. A page may be short, or even empty, and have a cursor.
type JournalList struct {
	Entries    []messages.JournalEntry `json:"entries"`
	NextCursor string                  `json:"next_cursor,omitempty"`
	More       store.More              `json:"more" doc:"found: the page is full, and more may follow; unsearched: the node has looked at as many entries as it does for one page, and next_cursor looks further; end: nothing follows"`
	SearchedTo *JournalSearched        `json:"searched_to,omitempty" doc:"how far the page has looked; missing at the end of the list"`
}

// JournalSearched is how far a page of the journal has looked.
type JournalSearched struct {
	At time.Time `json:"at" doc:"of the last entry that it looked at"`
}

func journalRoutes() []*route {
	return []*route{
		{method: "GET", path: "/api/v1/journal", scope: ScopeRead, group: "nodes", params: []param{
			{name: "from", kind: "string", help: "Only at this time or later, as 2030-01-31T08:00:00Z."},
			{name: "to", kind: "string", help: "Only before this time."},
			{name: "kinds", kind: "string", many: true, help: "Only these kinds: " + words(messages.JournalKinds()) + "; repeat it, or join several with commas."},
			{name: notPrefix + "kinds", kind: "string", many: true, help: "None of these kinds; repeat it, or join several with commas."},
			{name: "what", kind: "string", many: true, help: "Only where this happened, such as dead, away, reload, degraded or restarted; repeat it, or join several with commas."},
			{name: "subject", kind: "string", many: true, help: "Only about this: an incarnation, a pool, a worker, a session as pool/name, store or broker, or what a command named; repeat it for one of several."},
			{name: notPrefix + "subject", kind: "string", many: true, help: "Nothing about this; repeat it for several."},
			limitParam, cursorParam},
			summary: "What happened to nodes, pools, routers, workers, sessions and servers, and what operators did, newest first.",
			result:  JournalList{}, handle: (*server).journal},
	}
}

func (s *server) journal(c *call) error {
	q, err := journalQuery(c.query)
	if err != nil {
		return err
	}
	list, err := s.entries(c.r.Context(), q)
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, list)
}

// entries asks for one page of the journal.
func (s *server) entries(ctx context.Context, q store.JournalQuery) (*JournalList, error) {
	page, err := s.Backend.Journal(ctx, q)
	if err != nil {
		return nil, err
	}
	list := &JournalList{Entries: orEmpty(page.Entries), NextCursor: journalCursor(page.Next), More: store.MoreEnd}
	if !page.Next.IsZero() {
		list.More, list.SearchedTo = store.MoreFound, &JournalSearched{At: page.Next.At}
		if len(page.Entries) < q.Size() { // only a bound ends a page before it is full
			list.More = store.MoreUnsearched
		}
	}
	return list, nil
}

func journalQuery(q query) (j store.JournalQuery, err error) {
	j.Newest = true
	if j.Subjects, err = q.several("subject"); err != nil {
		return j, err
	}
	if j.NotSubjects, err = q.several(notPrefix + "subject"); err != nil {
		return j, err
	}
	if j.Kinds, err = q.kinds(); err != nil {
		return j, err
	}
	if j.Whats, err = q.whats(); err != nil {
		return j, err
	}
	if j.From, err = q.moment("from"); err != nil {
		return j, err
	}
	if j.To, err = q.moment("to"); err != nil {
		return j, err
	}
	if j.Limit, err = q.number("limit", 1, 1000, 100); err != nil {
		return j, err
	}
	j.After, err = q.journalPosition()
	return j, err
}

// kinds reads which kinds of entries a query wants; none: all. Those that it leaves out are the others, so that the store need not know.
func (q query) kinds() ([]messages.JournalKind, error) {
	only, err := q.kindsOf("kinds")
	if err != nil {
		return nil, err
	}
	not, err := q.kindsOf(notPrefix + "kinds")
	if err != nil || len(not) == 0 {
		return only, err
	}
	if len(only) == 0 {
		only = messages.JournalKinds()
	}
	left := slices.DeleteFunc(slices.Clone(only), func(k messages.JournalKind) bool { return slices.Contains(not, k) })
	if len(left) == 0 {
		return nil, invalid("kinds and not.kinds leave nothing")
	}
	return left, nil
}

func (q query) kindsOf(name string) (kinds []messages.JournalKind, err error) {
	for _, text := range q.all(name) {
		for word := range strings.SplitSeq(text, ",") {
			kind := messages.JournalKind(word)
			if !slices.Contains(messages.JournalKinds(), kind) {
				return nil, invalid("%s must be %s, got %q", name, words(messages.JournalKinds()), clip(word))
			}
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

// whatsMax bounds the words of what happened, and whatMax the length of one.
const (
	whatsMax = 50
	whatMax  = 64
)

// whats reads what happened. Each is a word as the journal has it; which ones there are, every release may say anew.
func (q query) whats() (words []string, err error) {
	for _, text := range q.all("what") {
		for word := range strings.SplitSeq(text, ",") {
			if word == "" || len(word) > whatMax || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") != "" {
				return nil, invalid("what %q is no word of the journal, such as dead or reload", clip(word))
			}
			words = append(words, word)
		}
	}
	if len(words) > whatsMax {
		return nil, invalid("what has %d words, at most %d", len(words), whatsMax)
	}
	return words, nil
}

// moment reads a time. A missing parameter gives zero.
func (q query) moment(name string) (time.Time, error) {
	text := q.text(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() < 1 || at.Year() > 9999 {
		return time.Time{}, invalid("%s must be a time, as 2030-01-31T08:00:00Z, got %q", name, clip(text))
	}
	return at.UTC(), nil
}

// times reads the parameters from and to of a list that has all times where they are left out.
func (q query) times() (from, to time.Time, err error) {
	if from, err = q.moment("from"); err != nil {
		return from, to, err
	}
	if to, err = q.moment("to"); err != nil {
		return from, to, err
	}
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return from, to, invalid("from must be before to")
	}
	return from, to, nil
}

// journalCursor encodes a position of the journal.
func journalCursor(c store.JournalCursor) string {
	if c.IsZero() {
		return ""
	}
	return cursor(fmt.Sprintf("%d %s %d", c.At.UnixMicro(), c.Incarnation, c.Number))
}

func (q query) journalPosition() (c store.JournalCursor, err error) {
	text := q.text("cursor")
	if text == "" {
		return c, nil
	}
	position, err := parseCursor(text)
	if err != nil {
		return c, err
	}
	parts := strings.Split(position, " ")
	if len(parts) == 3 {
		micros, badTime := strconv.ParseInt(parts[0], 10, 64)
		inc, badNode := messages.ParseIncarnation(parts[1])
		number, badNumber := strconv.ParseInt(parts[2], 10, 64)
		if badTime == nil && badNode == nil && badNumber == nil && number > 0 {
			return store.JournalCursor{At: time.UnixMicro(micros).UTC(), Incarnation: inc, Number: number}, nil
		}
	}
	return c, invalid("cursor %q is none of this list's; pass on next_cursor as it came", clip(text))
}
