package alerts

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Severity says how soon somebody has to look.
type Severity string

// The severities.
const (
	Warning  Severity = "warning"  // during the day
	Critical Severity = "critical" // now
)

// Subject is the label of the series by which a rule tells its values apart.
type Subject string

// The subjects.
const (
	Cluster Subject = ""         // one value for all nodes
	Pool    Subject = "pool"     // a pool, on all nodes together
	Node    Subject = "instance" // a node, as Prometheus names what it scrapes
)

// Comparison says on which side of its limit a value is bad.
type Comparison string

// The comparisons.
const (
	Above Comparison = ">"
	Is    Comparison = "=="
)

// Rule is one alert.
type Rule struct {
	Name     string
	Severity Severity
	Subject  Subject
	Measure  Measure // what is compared: a value for each subject
	Bad      Comparison
	Limit    float64
	For      time.Duration // how long the value must be bad; 0: one look is enough
	Summary  string        // one line; {value} is the value, as it is measured
	Means    string        // for the runbook
	Do       string        // for the runbook
}

// Key tells the rules apart: one name may have a rule of each severity.
func (r *Rule) Key() string { return r.Name + " " + string(r.Severity) }

// Runbook is where the documentation tells of the rule.
func (r *Rule) Runbook() string { return runbook + r.Name }

// Breaks reports whether a value is bad.
func (r *Rule) Breaks(value float64) bool {
	if r.Bad == Is {
		return value == r.Limit
	}
	return value > r.Limit
}

// Back is how long somebody must have watched to judge the rule fully.
func (r *Rule) Back() time.Duration { return r.Measure.back() + r.For }

// Remedy is what to do by the first rule of a name; empty: there is none.
func Remedy(name string) string {
	for _, r := range Rules() {
		if r.Name == name {
			return r.Do
		}
	}
	return ""
}

// Expression is the rule's condition in PromQL.
func (r *Rule) Expression() string {
	return fmt.Sprintf("%s %s %s", r.Measure.PromQL(), r.Bad, strconv.FormatFloat(r.Limit, 'f', -1, 64))
}

// Named is the rule's summary for a subject and a value.
func (r *Rule) Named(subject string, value string) string {
	text := strings.ReplaceAll(r.Summary, "{value}", value)
	switch r.Subject {
	case Pool:
		return "Pool " + subject + ": " + text
	case Node:
		return "Node " + subject + ": " + text
	case Cluster:
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
