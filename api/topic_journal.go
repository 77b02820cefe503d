package api

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/live"
)

func topicJournal(s *server, q query) (func(context.Context) (any, error), func(*hub.Change, func(string) bool) bool, error) {
	j, err := journalQuery(q)
	if err != nil {
		return nil, nil, err
	}
	if j.Limit > topicRows {
		return nil, nil, invalid("limit may be %d in a topic, and is %d", topicRows, j.Limit)
	}
	return newestFirst(func(ctx context.Context, limit int) (*JournalList, error) {
		page := j
		page.Limit = min(limit, j.Limit)
		return s.entries(ctx, page)
	}), nil, nil
}

// journalKept is for how long entries stand while the newest one is the same. What was kept while the store was away comes behind newer ones.
const journalKept = 3 * time.Second

// newestFirst makes what reads a page of the journal of what reads one with a limit: mostly nothing has happened, which one entry tells.
func newestFirst(page func(ctx context.Context, limit int) (*JournalList, error)) func(context.Context) (any, error) {
	var kept *JournalList // only one reading is under way at a time
	var at time.Time
	return func(ctx context.Context) (any, error) {
		if kept != nil && time.Since(at) < journalKept {
			newest, err := page(ctx, 1)
			if err != nil {
				return nil, err
			}
			if slices.EqualFunc(newest.Entries, kept.Entries[:min(len(kept.Entries), 1)], sameEntry) {
				return kept, nil
			}
		}
		list, err := page(ctx, topicRows)
		if err != nil {
			return nil, err
		}
		kept, at = list, time.Now()
		return list, nil
	}
}

func sameEntry(a, b messages.JournalEntry) bool {
	return a.Number == b.Number && a.Incarnation == b.Incarnation && a.At.Equal(b.At)
}

// journalEntries returns what makes entries of pages of the journal, one after another: the same page has the same.
func journalEntries(*server) func(answer any) ([]live.Entry, error) {
	var of any
	var entries []live.Entry
	return func(answer any) ([]live.Entry, error) {
		if of == answer {
			return entries, nil
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return nil, err
		}
		entries, err = live.Split(text, live.Lists{"entries": {"incarnation", "number"}})
		if of = answer; err != nil {
			of = nil
		}
		return entries, err
	}
}
