package node

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/alerts"
)

// How often the rules of the alerts are judged.
const (
	findingsTick = time.Second
	findingsIdle = alerts.Spacing  // while nobody asks: as often as the shipped configuration has Prometheus scrape
	findingsFast = 3 * time.Second // while somebody asks
	readingsAge  = 2 * time.Second // how long what was read of this node serves other nodes
)

// alerting judges the rules of the alerts by the numbers of all nodes, in a monitor's rounds. A caller gets what the last round found.
type alerting struct {
	*base
	gather prometheus.Gatherer // what /metrics shows
	nodes  func(context.Context) ([]alerts.NodeReading, []view.Unreached, error)
	series []alerts.Series

	turn  sync.Mutex // held by a round
	watch *alerts.Watch

	mu    sync.Mutex
	found api.Findings
	last  time.Time // of the last round
	asked bool      // since then

	reading sync.Mutex // held while this node's series are read
	own     []alerts.Reading
	read    time.Time
}

func newAlerting(b *base, gather prometheus.Gatherer) *alerting {
	rules := alerts.Rules()
	return &alerting{base: b, gather: gather, series: alerts.AllSeries(rules), watch: alerts.NewWatch(rules)}
}

// latest is what the last round found. It has the next one come soon.
func (f *alerting) latest() api.Findings {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = true
	return f.found
}

// due reports whether a round is to judge the rules now.
func (f *alerting) due(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	age := now.Sub(f.last)
	if f.last.IsZero() || age >= findingsIdle || f.asked && age >= findingsFast {
		f.last, f.asked = now, false
		return true
	}
	return false
}

// round judges the rules where it is time. A node that does not answer has no numbers, as if it could not be scraped.
func (f *alerting) round(ctx context.Context) error {
	if !f.phase.started.Load() || !f.due(time.Now()) {
		return nil
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	read, missing, err := f.nodes(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	f.watch.Observe(now, read)
	found := api.Findings{
		At: f.clock.Stored(now), Since: f.clock.Stored(f.watch.Since()), Findings: f.watch.Findings(), Unknown: f.watch.Unknown(), Partly: f.watch.Partly(), Unreached: missing,
	}
	for i := range found.Findings {
		found.Findings[i].Since = f.clock.Stored(found.Findings[i].Since)
		f.nameStates(ctx, &found.Findings[i])
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = found
	return nil
}

// The states that were set aside are counted up to so many, and a finding names so many sessions.
const (
	asideMax = 1000
	namedMax = 3
)

// nameStates adds to a finding of stored states which sessions they are of.
func (f *alerting) nameStates(ctx context.Context, found *alerts.Finding) {
	if found.Name != "session_state_broken" {
		return
	}
	list, err := f.store.AsideStates(ctx, asideMax)
	if err != nil {
		return
	}
	var names []string
	for i := range list {
		if list[i].Pool == found.Subject && len(names) < namedMax {
			names = append(names, list[i].Session)
		}
	}
	if len(names) > 0 {
		found.Message += ": " + strings.Join(names, ", ")
	}
}

// readings are what this node's series have come to. Other nodes ask for them too, each in rounds of its own.
func (f *alerting) readings(context.Context) []alerts.Reading {
	f.reading.Lock()
	defer f.reading.Unlock()
	if time.Since(f.read) < readingsAge {
		return f.own
	}
	f.own, f.read = alerts.Read(f.series, f.samples()), time.Now()
	return f.own
}

// samples are the series of the rules as /metrics shows them.
func (f *alerting) samples() (list []alerts.Sample) {
	wanted := map[string]bool{}
	for i := range f.series {
		wanted[f.series[i].Name] = true
	}
	families, err := f.gather.Gather()
	if err != nil {
		f.logger.Debug("some of the node's metrics were not read for its findings", "error", err)
	}
	for _, family := range families {
		name := family.GetName()
		if !wanted[name] && !wanted[name+"_bucket"] {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			h := m.GetHistogram()
			if h == nil {
				list = append(list, alerts.Sample{Name: name, Labels: labels, Value: m.GetGauge().GetValue() + m.GetCounter().GetValue()})
				continue
			}
			for _, b := range h.GetBucket() {
				list = append(list, bucketSample(name, labels, strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64), b.GetCumulativeCount()))
			}
			list = append(list, bucketSample(name, labels, "+Inf", h.GetSampleCount()))
		}
	}
	return list
}

func bucketSample(name string, labels map[string]string, bound string, n uint64) alerts.Sample {
	labels = maps.Clone(labels)
	labels["le"] = bound
	return alerts.Sample{Name: name + "_bucket", Labels: labels, Value: float64(n)}
}
