package pack

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/runtime"
)

// refMax bounds an action's ref, in bytes.
const refMax = 256

var refPattern = regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)+$`)

// register adds an action that has no file.
func (l *loader) register(a messages.Action) {
	spec := l.options.Runtimes.Handlers()
	if problem := l.checkRegistered(&a, spec); problem != "" {
		l.problems.add("registered action %s: %s", clip(a.Ref), problem)
		return
	}
	a.Pack, _, _ = strings.Cut(a.Ref, ".")
	a.Version = cmp.Or(a.Version, "0")
	a.Runtime = spec.Name
	a.Entrypoint = cmp.Or(a.Entrypoint, a.Ref)
	l.placeByRuntime(&a)
	l.actions = append(l.actions, a)
}

func (l *loader) checkRegistered(a *messages.Action, spec *runtime.Spec) string {
	switch {
	case len(a.Ref) > refMax || !refPattern.MatchString(a.Ref):
		return "the name must be two or more words of lower-case letters, digits and _, joined by dots"
	case a.Runtime != "" && a.Runtime != spec.Name:
		return fmt.Sprintf("the runtime is %q: only %s actions can be registered", clip(string(a.Runtime)), spec.Name)
	case slices.ContainsFunc(l.actions, func(b messages.Action) bool { return b.Ref == a.Ref }):
		return "another action has that name"
	case a.Pool != "" && a.Pool != string(spec.Name):
		return fmt.Sprintf("the pool is %q: registered actions run in pool %s", clip(a.Pool), spec.Name)
	case a.Timeout < 0 || a.StallTimeout < 0 || a.QueueDeadline < 0 || a.MaxRetries < 0:
		return "times and max_retries must not be negative"
	}
	if err := retry.Validate(a.Retry); err != nil {
		return err.Error()
	}
	if u := a.RetryRules.Unclassified; u != "" && u != retry.UnclassifiedRetry && u != retry.UnclassifiedFinal {
		return fmt.Sprintf("retry rules: unclassified must be retry or final, got %q", clip(u))
	}
	if len(a.Parameters) == 0 {
		return ""
	}
	schema, problem := registeredSchema(a.Parameters)
	l.schemas[a.Ref] = schema
	return problem
}

// registeredSchema compiles a schema that is JSON already.
func registeredSchema(raw json.RawMessage) (*checker, string) {
	if len(raw) > schemaMax {
		return nil, fmt.Sprintf("parameters: the schema has %d bytes, at most %d are allowed", len(raw), schemaMax)
	}
	if p := messages.CheckJSON(raw); p != nil {
		return nil, "parameters: " + p.Error()
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, "parameters must be a JSON Schema object"
	}
	if problem := checkRoot(object); problem != "" {
		return nil, "parameters: " + problem
	}
	schema, err := compile(raw)
	if err != nil {
		return nil, "parameters: " + schemaProblem(err)
	}
	return schema, ""
}
