package retry

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// Verdict is what is known of a failure.
type Verdict struct {
	Class Class
	kind  kind
	// guessed says that only the text named the class.
	guessed bool
}

// Classify names the class of an outcome: by its code, then by its status, then by its text. What none of them names is an
// exception of the action's own code.
func Classify(status messages.Status, err *messages.Error) Verdict {
	if status == messages.Cancelled {
		return verdict(Cancelled)
	}
	if err == nil {
		return verdict(orException(byStatus(status)))
	}
	if err.Code.Borrowed() { // a word of Troupe's, not what Troupe has found
		return verdict(orException(byStatus(status)))
	}
	class, known := byCode(err.Code)
	if known && kinds[class] != unclassified {
		return verdict(class)
	}
	if by, ok := byStatus(status); ok {
		return verdict(by)
	}
	if by, ok := byText(err.Message); ok {
		v := verdict(by)
		v.guessed = true
		return v
	}
	return verdict(orException(class, known))
}

func verdict(c Class) Verdict { return Verdict{Class: c, kind: kinds[c]} }

func orException(c Class, known bool) Class {
	if known {
		return c
	}
	return Exception
}

// byStatus judges an outcome whose error says nothing: out of time, or its worker gone.
func byStatus(s messages.Status) (Class, bool) {
	switch s {
	case messages.TimedOut:
		return Timeout, true
	case messages.Abandoned:
		return WorkerLost, true
	}
	return "", false
}

// Rules are an action's own rules about what is retried.
type Rules = messages.RetryRules

// The values of Rules.Unclassified. Empty is UnclassifiedRetry.
const (
	UnclassifiedRetry = "retry"
	UnclassifiedFinal = "final"
)

// judge says why an outcome is final, or nothing where a repeat may help it. What was cancelled, and what its own worker keeps
// dying of, is final whatever anyone says. Then never_on counts, then the worker's own word, then on, then the class.
func judge(v Verdict, status messages.Status, err *messages.Error, rules Rules) Denial {
	if err == nil {
		err = &messages.Error{}
	}
	yes, no := err.Retriable != nil && *err.Retriable, err.Retriable != nil && !*err.Retriable
	known := v.kind == final && !v.guessed // by its code
	switch {
	case status == messages.Cancelled, err.Code == messages.CodePoisoned:
		return DeniedFinal
	case listed(rules.NeverOn, v.Class, err):
		return DeniedNeverOn
	case no:
		return DeniedByWorker
	case len(rules.On) > 0 && !listed(rules.On, v.Class, err):
		return DeniedNotOn
	case yes:
		return ""
	case known, v.kind == final && len(rules.On) == 0:
		return DeniedFinal
	case v.kind == unclassified && len(rules.On) == 0 && rules.Unclassified == UnclassifiedFinal:
		return DeniedUnclassified
	}
	return ""
}

// listed reports whether a list names the error: by its code, its class, how its process ended, or the type of its exception or one that this
// derives from.
func listed(list []string, class Class, err *messages.Error) bool {
	if len(list) == 0 {
		return false
	}
	names := []string{string(class)}
	for _, name := range []string{string(err.Code), err.Exit, strings.TrimPrefix(err.Exit, "exit status "), exceptionType(err)} {
		if name != "" {
			names = append(names, name)
		}
	}
	names = append(names, err.Types...)
	return slices.ContainsFunc(list, func(s string) bool { return slices.Contains(names, s) })
}

// exceptionType is the type that the error names, or that its details name, as those of older SDKs do.
func exceptionType(err *messages.Error) string {
	if err.Type != "" || len(err.Details) == 0 {
		return err.Type
	}
	var details struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(err.Details, &details) != nil {
		return ""
	}
	return details.Type
}

// ResolveRules fills what the rules do not say from under.
func ResolveRules(r, under Rules) Rules {
	if len(r.On) == 0 && len(r.NeverOn) == 0 {
		r.On, r.NeverOn = under.On, under.NeverOn
	}
	if r.Unclassified == "" {
		r.Unclassified = under.Unclassified
	}
	return r
}
