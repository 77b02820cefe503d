package pack

import (
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-run/troupe/messages"
)

// Bounds on the lists of errors under retry.
const (
	retryListMax  = 100
	retryEntryMax = 128 // bytes, the bound on a code
)

// retry reads the policy and the rules of retries. A missing value comes from the arguments. A list replaces the
// argument's list.
func (f *fields) retry(policy messages.RetryPolicy, rules messages.RetryRules) (messages.RetryPolicy, messages.RetryRules) {
	r := f.sub("retry")
	if r == nil {
		return policy, rules
	}
	if s := r.choice("shape", shapeNames()...); s != "" {
		policy.Shape = messages.RetryShape(s)
	}
	if d := r.duration("base"); d > 0 {
		policy.Base = d
	}
	if v, ok := r.number("multiplier", 1, 100, "1 to 100"); ok {
		policy.Multiplier = v
	}
	if d := r.duration("max"); d > 0 {
		policy.Max = d
	}
	if v, ok := r.number("jitter", 0, 1, "0 to 1"); ok {
		policy.Jitter = v
		if v == 0 {
			policy.Jitter = -1 // none; 0 would mean not set
		}
	}
	r.rules(&rules)
	r.done()
	if policy.Base > 0 && policy.Max > 0 && policy.Base > policy.Max {
		f.fail(r.node, "%sretry: base is %v, which is more than max, %v", f.path, policy.Base, policy.Max)
	}
	return policy, rules
}

func shapeNames() []string {
	var names []string
	for _, s := range messages.RetryShapes() {
		names = append(names, string(s))
	}
	return names
}

// rules reads which failures are retried.
func (f *fields) rules(rules *messages.RetryRules) {
	if f.nodes["on"] != nil {
		rules.On = nil
	}
	if f.nodes["never_on"] != nil {
		rules.NeverOn = nil
	}
	rules.On = append(rules.On, f.errorNames("on")...)
	rules.NeverOn = append(rules.NeverOn, f.errorNames("never_on")...)
	if u := f.choice("unclassified", "retry", "final"); u != "" {
		rules.Unclassified = u
	}
	for _, name := range rules.On {
		if slices.Contains(rules.NeverOn, name) {
			f.fail(f.node, "%son and %snever_on both have %s", f.path, f.path, strconv.Quote(name))
		}
	}
}

// errorNames reads a list of error codes, classes and exception types, which are texts, and of exit statuses, which are
// whole numbers.
func (f *fields) errorNames(key string) []string {
	var names []string
	for i, item := range f.list(key, retryListMax) {
		name := f.path + key + "[" + strconv.Itoa(i) + "]"
		if item.Kind != yaml.ScalarNode || item.ShortTag() != "!!int" {
			if text := f.plain(item, name, retryEntryMax, false); text != "" {
				names = append(names, text)
			}
			continue
		}
		status, err := strconv.Atoi(item.Value)
		if err != nil || status < 1 || status > 255 {
			f.fail(item, "%s must be an exit status of 1 to 255, got %s", name, clip(item.Value))
			continue
		}
		names = append(names, strconv.Itoa(status))
	}
	return names
}
