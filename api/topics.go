package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/live"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// Bounds of the topics of one stream.
const (
	topicsMax     = 32       // of one stream
	topicMax      = 8 << 10  // bytes of one, which may have 200 ids
	topicsTextMax = 32 << 10 // bytes of all
	topicRows     = 200      // executions, entries and ids of one topic
	topicWorkers  = 1000
	workersTick   = 2 * time.Second // a thousand of them are half a megabyte
	topicFlows    = 16              // executions whose output one stream follows
)

// topicKind is a kind of topic: what it is an answer to, and how that is made.
type topicKind struct {
	name, help string
	path       string   // of the route whose answer it is, and whose parameters its filter has
	without    []string // parameters of the route that a topic does not take
	lists      live.Lists
	storeless  bool
	tick       time.Duration // how often it is read; 0: each second
	// make reads the filter and returns what makes the answer, and what a change must be to concern it; nil: any.
	make func(s *server, q query) (read func(context.Context) (any, error), touched func(*hub.Change, func(string) bool) bool, err error)
	// entries, where it is not nil, returns what makes the entries of an answer that make's read has made; otherwise they are made of its JSON.
	entries func(s *server) func(answer any) ([]live.Entry, error)
	// flow, in the place of make, returns the topic of something that is said as it comes.
	flow func(s *server, filter string) (hub.Topic, error)
}

func topicKinds() []topicKind {
	return []topicKind{
		{name: "counters", help: "the overview, without me", path: "/api/v1/overview", without: []string{"from", "to"}, storeless: true,
			lists: live.Lists{"pools": {"name"}, "nodes": {"incarnation"}}, make: topicOverview},
		{name: "list", help: "the first page of executions with a filter", path: "/api/v1/executions", without: []string{"cursor"},
			lists: live.Lists{"executions": {"id"}}, make: topicList},
		{name: "rows", help: "executions by their ids, joined with +", lists: live.Lists{"executions": {"id"}}, make: topicOfRows},
		{name: "journal", help: "the newest entries of the journal", path: "/api/v1/journal", without: []string{"cursor"},
			entries: journalEntries, make: topicJournal},
		{name: "pools", help: "the pools", path: "/api/v1/pools", lists: live.Lists{"pools": {"name"}}, make: topicPools},
		{name: "nodes", help: "the nodes", path: "/api/v1/nodes", storeless: true, lists: live.Lists{"nodes": {"incarnation"}}, make: topicNodes},
		{name: "workers", help: "the workers without health_report; of one whose node answers without seen_at, which is the time of the event; every two seconds", path: "/api/v1/workers", without: []string{"cursor"}, storeless: true, tick: workersTick,
			entries: workerEntries, make: topicWorkersOf},
		{name: "fleet", help: "nodes and pools with a letter for each worker", path: "/api/v1/fleet", without: []string{"at"}, storeless: true,
			lists: live.Lists{"nodes": {"incarnation"}, "pools": {"incarnation", "name"}}, make: topicFleet},
		{name: "tree", help: "the actors of all nodes, or with node of one, up to 1000 children of each, without handled. An actor is an entry of its own, nodes/INCARNATION/ID, which belongs among the children of its parent; every two seconds",
			path: "/debug/actors", without: []string{"cluster", "kind", "children"}, storeless: true, tick: treeTick, entries: treeEntries, make: topicTree},
		{name: "execution", help: "what an execution says, by its id, as its output is followed; behind it @ and a place, LOG.N, to go on there", flow: topicOutput},
	}
}

// topics reads the topics of a stream, and names the one that is wrong.
func (s *server) topics(q query) ([]hub.Topic, error) {
	var topics []hub.Topic
	flows := 0
	for _, text := range q.all("topics") {
		for name := range strings.SplitSeq(text, ",") {
			t, err := s.topic(name)
			if err != nil {
				return nil, ofTopic(name, err)
			}
			if topics = append(topics, t); len(topics) > topicsMax {
				return nil, messages.Problemf(messages.CodeInvalidTopic, "a stream has up to %d topics; open another one for the others", topicsMax)
			}
			if t.Follow == nil {
				continue
			}
			if flows++; flows > topicFlows {
				return nil, ofTopic(name, invalid("a stream follows the output of up to %d executions; open another one for the others", topicFlows))
			}
		}
	}
	if len(topics) == 0 {
		return nil, messages.Problemf(messages.CodeInvalidTopic, "topics is empty; name what to follow, as topics=counters,list:status%%3Dfailed")
	}
	return topics, nil
}

// ofTopic names the topic that a problem is about.
func ofTopic(name string, err error) error {
	var p *messages.Problem
	if !errors.As(err, &p) {
		return err
	}
	wrong := messages.Problemf(messages.CodeInvalidTopic, "topic %q: %s", clip(name), p.Message)
	wrong.Details = map[string]any{"topic": name} // so that a program can leave it out
	return wrong
}

func (s *server) topic(name string) (hub.Topic, error) {
	if len(name) > topicMax {
		return hub.Topic{}, invalid("it has %d bytes, and may have %d", len(name), topicMax)
	}
	if p := submit.CheckText("topic", name, topicMax); p != nil {
		return hub.Topic{}, p
	}
	kinds := topicKinds()
	word, filter, _ := strings.Cut(name, ":")
	at := slices.IndexFunc(kinds, func(k topicKind) bool { return k.name == word })
	if at < 0 {
		names := make([]string, len(kinds))
		for i := range kinds {
			names[i] = kinds[i].name
		}
		return hub.Topic{}, invalid("there is no such topic; want one of %s. A comma within a topic is written %%2C", strings.Join(names, ", "))
	}
	kind := &kinds[at]
	if kind.flow != nil {
		return kind.flow(s, filter)
	}
	q, err := kind.filter(filter)
	if err != nil {
		return hub.Topic{}, err
	}
	read, touched, err := kind.make(s, q)
	if err != nil {
		return hub.Topic{}, err
	}
	return hub.Topic{Name: name, Kind: kind.name, Tick: kind.tick, Touched: touched, Read: kind.reader(s, read)}, nil
}

// reader makes what reads the entries of a topic of what reads its answer.
func (k *topicKind) reader(s *server, read func(context.Context) (any, error)) func(context.Context) ([]live.Entry, error) {
	ask := func(ctx context.Context) (any, error) {
		if s.Gate != nil && !k.storeless {
			if shut := s.Gate(); shut != nil {
				return nil, shut
			}
		}
		answer, err := read(ctx)
		if err != nil {
			return nil, toProblem(err)
		}
		return answer, nil
	}
	if k.entries != nil {
		split := k.entries(s)
		return func(ctx context.Context) ([]live.Entry, error) {
			answer, err := ask(ctx)
			if err != nil {
				return nil, err
			}
			return split(answer)
		}
	}
	return hub.OfText(k.lists, func(ctx context.Context) ([]byte, error) {
		answer, err := ask(ctx)
		if err != nil {
			return nil, err
		}
		return json.Marshal(answer)
	})
}

// filter reads what stands behind a topic's name, as the query of the route that it is an answer of.
func (k *topicKind) filter(text string) (query, error) {
	if k.path == "" {
		return query{url.Values{"ids": {text}}}, nil
	}
	values, err := parseQuery(text)
	if err != nil {
		return query{}, err
	}
	rt := route{method: "topic", path: k.name}
	for _, known := range routes() {
		if known.method == "GET" && known.path == k.path {
			rt.params = slices.DeleteFunc(slices.Clone(known.params), func(p param) bool { return slices.Contains(k.without, p.name) })
		}
	}
	q := query{values}
	return q, q.check(&rt)
}

func topicOverview(s *server, _ query) (func(context.Context) (any, error), func(*hub.Change, func(string) bool) bool, error) {
	return func(ctx context.Context) (any, error) {
		return struct {
			Overview
			Me *MeView `json:"me,omitempty"`
		}{Overview: s.shown(ctx, time.Time{}, time.Time{})}, nil
	}, nil, nil
}

// endedKept is for how long an execution that has ended is shown as it was read: little can become of it, but a retry or its end by retention.
const endedKept = 10 * time.Second

// endedRow is an execution that had ended when it was read.
type endedRow struct {
	view form.ExecutionView
	read time.Time
}

// fresh reports whether the execution need not be read again.
func (r endedRow) fresh(now time.Time) bool { return !r.read.IsZero() && now.Sub(r.read) < endedKept }

// topicOfRows follows executions by their ids.
func topicOfRows(s *server, q query) (func(context.Context) (any, error), func(*hub.Change, func(string) bool) bool, error) {
	words := strings.FieldsFunc(q.text("ids"), func(r rune) bool { return r == '+' || r == ' ' })
	if len(words) == 0 || len(words) > topicRows {
		return nil, nil, invalid("it has %d ids; give 1 to %d, joined with +", len(words), topicRows)
	}
	var ids []messages.ExecutionID
	for _, word := range words {
		id, err := messages.ParseExecutionID(word)
		if err != nil {
			return nil, nil, invalid("%q is no id of an execution", clip(word))
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	ended := map[messages.ExecutionID]endedRow{} // only one reading is under way at a time
	read := func(ctx context.Context) (any, error) {
		list := ExecutionRows{Executions: []form.ExecutionView{}}
		for _, id := range ids {
			if e := ended[id]; e.fresh(time.Now()) {
				list.Executions = append(list.Executions, e.view)
				continue
			}
			delete(ended, id)
			e, err := s.Backend.Get(store.Bare(ctx), id)
			if errors.Is(err, store.ErrNotFound) || isNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			views := viewAll([]messages.Execution{e})
			briefly(views)
			list.Executions = append(list.Executions, views[0])
			if e.Status.Terminal() {
				ended[id] = endedRow{views[0], time.Now()}
			}
		}
		return &list, nil
	}
	touched := func(c *hub.Change, _ func(string) bool) bool { return slices.Contains(ids, c.ID) }
	return read, touched, nil
}

// ExecutionRows are executions that were asked for by their ids. Those that are not known are missing.
type ExecutionRows struct {
	Executions []form.ExecutionView `json:"executions"`
}

func isNotFound(err error) bool {
	var p *messages.Problem
	return errors.As(err, &p) && p.Code == messages.CodeNotFound
}

func topicPools(s *server, q query) (func(context.Context) (any, error), func(*hub.Change, func(string) bool) bool, error) {
	return func(ctx context.Context) (any, error) { return s.poolList(ctx, q.text("node")) }, nil, nil
}

func topicNodes(s *server, _ query) (func(context.Context) (any, error), func(*hub.Change, func(string) bool) bool, error) {
	return func(ctx context.Context) (any, error) {
		nodes, err := s.Backend.Nodes(ctx)
		return &NodeList{Nodes: orEmpty(nodes)}, err
	}, nil, nil
}

// topicFleet is the fleet without its time, which would change by itself.
func topicFleet(s *server, _ query) (func(context.Context) (any, error), func(*hub.Change, func(string) bool) bool, error) {
	return func(ctx context.Context) (any, error) {
		v, err := s.fleetNow(ctx)
		if err != nil {
			return nil, err
		}
		v.At = time.Time{}
		return v, nil
	}, nil, nil
}

// topicOutput follows what an execution says, as its output is followed by a request of its own.
func topicOutput(s *server, filter string) (hub.Topic, error) {
	word, at, resumed := strings.Cut(filter, "@")
	id, err := messages.ParseExecutionID(word)
	if err != nil {
		return hub.Topic{}, invalid("%q is no id of an execution", clip(word))
	}
	t := hub.Topic{Name: "execution:" + id.String(), Kind: "execution"}
	if resumed {
		var valid bool
		if t.From, valid = live.ParsePlace(at); !valid {
			return hub.Topic{}, invalid("%q is no place; want the log and n of an event, as LOG.N", clip(at))
		}
	}
	t.Follow = func(ctx context.Context, each func([]byte) error) error {
		if s.Gate != nil {
			if shut := s.Gate(); shut != nil {
				return shut
			}
		}
		part := &answer{of: &s.answers, caller: streamsCaller} // what is stored is read at the end, and the topic ends with it
		defer part.release()
		ctx = store.WithAdmission(ctx, part)
		_, err := s.Backend.Get(store.Bare(ctx), id)
		if err == nil {
			err = s.Backend.Follow(ctx, id, func(l view.Live) error {
				item, err := json.Marshal(l)
				if err != nil {
					return err
				}
				return each(item)
			})
		}
		if err != nil && ctx.Err() == nil {
			return toProblem(named(err, "execution", id.String()))
		}
		return err
	}
	return t, nil
}
