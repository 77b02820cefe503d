package main

import (
	"cmp"
	"context"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/store"
)

// wanted is which executions a verb is about, as its flags say.
type wanted struct {
	status, label, was                   []string
	action, pool, session, worker, codes []string
	key, prefix, text                    []string
	since, until, endedSince, endedUntil string
	without                              unwanted
}

func newWanted() *wanted { return &wanted{without: unwanted{}} }

func (w *wanted) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&w.status, "status", nil, "only these statuses")
	const several = "; repeat it for one of several"
	f.StringArrayVar(&w.action, "action", nil, "only this action"+several)
	f.StringArrayVar(&w.pool, "pool", nil, "only this pool"+several)
	f.StringArrayVar(&w.session, "session", nil, "only this session"+several)
	f.StringArrayVar(&w.worker, "worker", nil, "only this worker"+several)
	f.StringArrayVar(&w.label, "label", nil, "only with this label, name=value; repeat it for one of several values of a name, and for several names that must all be there")
	f.StringArrayVar(&w.codes, "error", nil, "only with this error code"+several)
	f.StringArrayVar(&w.text, "text", nil, "only with this text in their error, or in their parameters where the node shows them at once"+several)
	f.StringArrayVar(&w.key, "key", nil, "only with this idempotency key"+several)
	f.StringArrayVar(&w.prefix, "id", nil, "only ids that begin so: at least 4 hexadecimal digits"+several)
	f.StringSliceVar(&w.was, "was", nil, "only what befell so, as the ledger counts it: "+oneOf(store.EachWas()))
	f.StringVar(&w.since, "since", "", "only those requested at this time or later: a time (2030-01-31T08:00:00Z) or an age (2h)")
	f.StringVar(&w.until, "until", "", "only those requested before this time: a time or an age")
	w.without.flags(f, map[string]string{
		"status": "statuses", "action": "actions", "pool": "pools", "session": "sessions", "worker": "workers", "error": "error codes",
		"label": "labels, name=value", "text": "texts", "key": "idempotency keys", "id": "ids, by how they begin",
	})
	w.without["was"] = f.StringArray("not-was", nil, "leave out what befell so: "+oneOf(store.EachWas())+"; repeat it for several")
}

// ends adds the flags about when executions ended. The verb about failures has none: its time is that.
func (w *wanted) ends(f *pflag.FlagSet) {
	f.StringVar(&w.endedSince, "ended-since", "", "only those that ended at this time or later: a time or an age. Without --since, only what was requested up to 24 hours before it is looked at")
	f.StringVar(&w.endedUntil, "ended-until", "", "only those that ended before this time: a time or an age")
}

// query is the filter as parameters of the API. An age is counted back from the node's time.
func (w *wanted) query(ctx context.Context, c *client.Client) (url.Values, span, error) {
	query := url.Values{}
	for name, values := range map[string][]string{
		"status": w.status, "label": w.label, "was": w.was, "action": w.action, "pool": w.pool, "session": w.session, "worker": w.worker, "error": w.codes,
		"key": w.key, "id_prefix": w.prefix, "q": w.text,
	} {
		if len(values) > 0 {
			query[name] = values
		}
	}
	w.without.ask(query)
	now := func() (time.Time, error) { return c.NodeTime(ctx) }
	ended, err := spanOf(endedFlags, w.endedSince, w.endedUntil, now)
	if err != nil {
		return query, span{}, err
	}
	ended.askAs(query, "ended_from", "ended_to")
	requested, err := newSpan(w.since, w.until, now)
	requested.ask(query)
	return query, requested, err
}

// unwanted is what a list leaves out, by the name of the flag, which is that of the API's parameter but for a few.
type unwanted map[string]*[]string

// flags makes a flag for each kind of thing that can be left out, with what it is called.
func (u unwanted) flags(f *pflag.FlagSet, kinds map[string]string) {
	for name, about := range kinds {
		u[name] = f.StringArray("not-"+name, nil, "leave out these "+about+"; repeat it for several")
	}
}

// paramNames are the API's names of what flags call otherwise.
var paramNames = map[string]string{"id": "id_prefix", "text": "q"}

func (u unwanted) ask(query url.Values) {
	for name, values := range u {
		if len(*values) > 0 {
			query["not."+cmp.Or(paramNames[name], name)] = *values
		}
	}
}
