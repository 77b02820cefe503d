package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/store"
)

// history has the verb for the journal.
type history struct{ *app }

func (h history) command() *cobra.Command {
	var since, until, kinds, what string
	var subjects []string
	limit, without := 0, unwanted{}
	cmd := &cobra.Command{
		Use: "history", Short: "Show what happened to nodes, pools, routers, workers, sessions and servers, and what operators did", Args: exactly(),
		Long: "Show what the nodes recorded in the journal, newest first: nodes that came and went, the conditions of pools, routers, workers that\n" +
			"were degraded, ended or restarted, with the reason, bindings of sessions, outages of the store and the broker, and the commands of operators with their callers.",
		Example: "  troupe history --since 1h\n  troupe history --kinds operator,node --since 2030-01-31T03:00:00Z --until 2030-01-31T03:30:00Z\n" +
			"  troupe history --subject python\n  troupe history --kinds worker --since 24h\n  troupe history --what dead,reload",
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "only at this time or later: a time (2030-01-31T08:00:00Z) or an age (2h)")
	f.StringVar(&until, "until", "", "only before this time, or so long ago")
	f.StringVar(&kinds, "kinds", "", "only these kinds, joined with commas: "+oneOf(messages.JournalKinds()))
	f.StringVar(&what, "what", "", "only where this happened, joined with commas: dead, away, reload, degraded, restarted and so on")
	without.flags(f, map[string]string{"kinds": "kinds", "subject": "subjects"})
	f.StringArrayVar(&subjects, "subject", nil, "only about this: an incarnation, a pool, a worker, a session as POOL/NAME, store, broker, or what a command named; repeat it for one of several")
	f.IntVarP(&limit, "limit", "n", 100, "how many, 1 to 1000")
	cmd.RunE = h.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		span, err := newSpan(since, until, func() (time.Time, error) { return c.NodeTime(ctx) })
		if err != nil {
			return err
		}
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		for name, value := range map[string]string{"kinds": kinds, "what": what, "from": instant(span.since), "to": instant(span.until)} {
			if value != "" {
				query.Set(name, value)
			}
		}
		if len(subjects) > 0 {
			query["subject"] = subjects
		}
		without.ask(query)
		v, err := h.pages(ctx, c, query, limit)
		if err != nil {
			return err
		}
		var nodes api.NodeList
		if h.output != "json" {
			if err := c.Get(ctx, "/api/v1/nodes", &nodes); err != nil {
				return err
			}
		}
		err = h.show(v, []string{"AT", "NODE", "KIND", "SUBJECT", "WHAT", "WHY"}, historyRows(v.Entries, nodes.Nodes))
		if err != nil || h.output == "json" || v.More != store.MoreUnsearched || v.SearchedTo == nil {
			return err
		}
		_, err = fmt.Fprintf(h.out, "looked back to %s; there may be more: give a shorter time with --until\n", clock(v.SearchedTo.At))
		return err
	})
	return cmd
}

// historyPages bounds the pages of one call: a page may find nothing and have a next one.
const historyPages = 50

// pages reads the journal until there are so many entries, or no more.
func (h history) pages(ctx context.Context, c *client.Client, query url.Values, limit int) (all api.JournalList, err error) {
	all.Entries = []messages.JournalEntry{}
	for range historyPages {
		var page api.JournalList
		if err := c.Get(ctx, "/api/v1/journal?"+query.Encode(), &page); err != nil {
			return all, err
		}
		all.Entries, all.NextCursor, all.More, all.SearchedTo = append(all.Entries, page.Entries...), page.NextCursor, page.More, page.SearchedTo
		if page.NextCursor == "" || len(all.Entries) >= limit {
			return all, nil
		}
		query.Set("cursor", page.NextCursor)
		query.Set("limit", strconv.Itoa(limit-len(all.Entries)))
	}
	return all, nil
}

// instant writes a time for the API; nothing for none.
func instant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// historyRows name incarnations by their nodes, where those are known.
func historyRows(entries []messages.JournalEntry, nodes []view.Node) [][]string {
	names := make(map[string]string, len(nodes))
	for _, n := range nodes {
		names[n.Incarnation.String()] = n.Name
	}
	rows := make([][]string, len(entries))
	for i := range entries {
		e := &entries[i]
		inc := e.Incarnation.String()
		why := e.Reason
		if e.Kind == messages.JournalNode && e.What == "dead" {
			why = or(store.NodeEnd(e.Reason).Sentence(), why)
		}
		if e.Caller != "" {
			why = joined(why, "by "+e.Caller)
		}
		if e.Kind == messages.JournalPool && len(e.Detail) > 0 {
			why = joined(why, conditionShares(e.Detail))
		}
		rows[i] = []string{clock(e.At), or(names[inc], e.Incarnation.Short()), string(e.Kind), or(names[e.Subject], e.Subject), e.What, why}
	}
	return rows
}

// conditionShares says for what share of the time a pool had each condition, the largest first; nothing where it had one.
func conditionShares(detail json.RawMessage) string {
	var d journal.ConditionDetail
	if json.Unmarshal(detail, &d) != nil || len(d.Shares) < 2 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(d.Shares), func(a, b string) int {
		return cmp.Or(cmp.Compare(d.Shares[b], d.Shares[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = name + " " + shareText(d.Shares[name])
	}
	return strings.Join(names, ", ")
}

// shareText is a share of a time. What is little is not said to be nothing, and nearly all not to be all.
func shareText(part float64) string {
	switch {
	case part > 0 && part < 0.005:
		return "<1 %"
	case part < 1 && part >= 0.995:
		return ">99 %"
	}
	return fmt.Sprintf("%.0f %%", part*100)
}
