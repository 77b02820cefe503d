package main

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

const (
	completeTime = 2 * time.Second // a shell waits for the node's answer
	completeRows = "50"            // executions that are offered, newest first
)

// offer says what may stand as the next argument behind args, or as a flag's value. What the node does not answer is not
// offered.
type offer func(ctx context.Context, c *client.Client, args []string) ([]string, error)

// completion lets the shell offer names that the node knows. Verbs and flags are offered without it.
type completion struct{ *app }

// addTo adds it to every verb below root that takes such a name.
func (c completion) addTo(root *cobra.Command) {
	for verb, o := range map[string]offer{
		"submit": submitArguments, "get": first(executionIDs("")), "timeline": first(executionIDs("")), "why": first(executionIDs("")),
		"logs": first(executionIDs("")), "wait": first(executionIDs("")),
		"cancel":  executionIDs("requested,scheduling,scheduled,running,cancelling"),
		"retry":   executionIDs("failed,timed_out,cancelled,abandoned"),
		"workers": first(workerIDs), "cordon": things, "uncordon": things, "drain": first(nodeNames),
		"pool": first(poolNames),
	} {
		if cmd, _, err := root.Find([]string{verb}); err == nil {
			cmd.ValidArgsFunction = c.offering(o)
		}
	}
	for verb, flags := range map[string]map[string]offer{
		"tree": {"node": nodeNames}, "pools": {"node": nodeNames}, "sessions": {"pool": poolNames}, "chaos": {"pool": poolNames},
		"workers": {"node": nodeNames, "pool": poolNames, "state": workerStates, "not-node": nodeNames, "not-pool": poolNames, "not-state": workerStates}, "bench": {"action": actionNames},
		"list": {
			"status": statuses, "action": actionNames, "pool": poolNames, "worker": workerIDs,
			"not-status": statuses, "not-action": actionNames, "not-pool": poolNames, "not-worker": workerIDs,
		},
		"facets": {"status": statuses, "action": actionNames, "pool": poolNames, "worker": workerIDs},
		"series": {"by": fields, "metric": metrics},
		"submit": {"affinity": affinities},
	} {
		if cmd, _, err := root.Find([]string{verb}); err == nil {
			for flag, o := range flags {
				_ = cmd.RegisterFlagCompletionFunc(flag, c.offering(o)) // it fails for a flag that is not there alone
			}
		}
	}
	for _, kind := range bulk.Kinds() { // a flag that a kind does not have is no error here
		if cmd, _, err := root.Find([]string{"bulk", string(kind)}); err == nil {
			for flag, o := range map[string]offer{"status": statuses, "action": actionNames, "pool": poolNames, "worker": workerIDs} {
				_ = cmd.RegisterFlagCompletionFunc(flag, c.offering(o))
			}
		}
	}
	for _, verb := range []string{"get", "end"} {
		if cmd, _, err := root.Find([]string{"sessions", verb}); err == nil {
			cmd.ValidArgsFunction = c.offering(first(sessionNames))
		}
	}
	for _, verb := range []string{"get", "runs", "kill", "cordon", "uncordon", "probe"} {
		if cmd, _, err := root.Find([]string{"worker", verb}); err == nil {
			cmd.ValidArgsFunction = c.offering(first(workerIDs))
		}
	}
}

// offering asks the node that the flags name. What does not begin with what is typed is left out; of a list, such as
// failed,timed_out, that is what stands behind the last comma.
func (c completion) offering(o offer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		asked, err := c.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer asked.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		names, err := o(ctx, asked, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offered(harmless(names), typed)
	}
}

// offered is what of the names goes on from what is typed, and whether a space follows it.
func offered(names []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.Contains(typed, "=") {
		return nil, cobra.ShellCompDirectiveNoFileComp // a parameter's value
	}
	before, last := "", typed
	if i := strings.LastIndexByte(typed, ','); i >= 0 {
		before, last = typed[:i+1], typed[i+1:]
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	var found []cobra.Completion
	for _, name := range names {
		if !strings.HasPrefix(name, last) {
			continue
		}
		word, _, _ := strings.Cut(name, "\t")
		if strings.HasSuffix(word, "=") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		found = append(found, before+name)
	}
	return found, directive
}

// submitArguments offers the actions, and behind one of them its parameters.
func submitArguments(ctx context.Context, c *client.Client, args []string) ([]string, error) {
	if len(args) == 0 {
		return actionNames(ctx, c, args)
	}
	return parameterNames(ctx, c, args)
}

func statuses(context.Context, *client.Client, []string) ([]string, error) {
	return named(messages.Statuses(), messages.Status.String), nil
}

func fields(context.Context, *client.Client, []string) ([]string, error) {
	return named(rollup.Fields(), func(f rollup.By) string { return string(f) }), nil
}

func metrics(context.Context, *client.Client, []string) ([]string, error) {
	return named(rollup.Metrics(), func(m rollup.Metric) string { return string(m) }), nil
}

func workerStates(context.Context, *client.Client, []string) ([]string, error) {
	return named(lifecycle.States(), lifecycle.State.String), nil
}

func affinities(context.Context, *client.Client, []string) ([]string, error) {
	return []string{string(messages.AffinityHint), string(messages.AffinityStrict), string(messages.AffinityStrictFail)}, nil
}

// harmless leaves out the names that would steer the terminal; what stands behind a tab is their description.
func harmless(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return strings.ContainsFunc(strings.Replace(name, "\t", "", 1), steers) })
}

// first offers for the first argument alone.
func first(o offer) offer {
	return func(ctx context.Context, c *client.Client, args []string) ([]string, error) {
		if len(args) > 0 {
			return nil, nil
		}
		return o(ctx, c, args)
	}
}

func actionNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	var v api.ActionList
	err := c.Get(ctx, "/api/v1/actions", &v)
	return named(v.Actions, func(x api.ActionView) string { return x.Ref }), err
}

func executionIDs(status string) offer {
	return func(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
		query := url.Values{"limit": {completeRows}}
		if status != "" {
			query.Set("status", status)
		}
		v, err := c.Executions(ctx, query)
		return named(v.Executions, func(x form.ExecutionView) string { return x.ID.String() + "\t" + x.ActionRef + " " + x.Status.String() }), err
	}
}

func workerIDs(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	v, err := allWorkers(ctx, c, url.Values{})
	return named(v.Workers, func(x view.Worker) string { return string(x.ID) + "\t" + x.State }), err
}

func poolNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	var v api.PoolList
	err := c.Get(ctx, "/api/v1/pools", &v)
	return named(v.Pools, func(x view.Pool) string { return x.Name }), err
}

func sessionNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	var v api.SessionList
	err := c.Get(ctx, "/api/v1/sessions?bound=1&limit="+completeRows, &v)
	return named(v.Sessions, func(x store.Session) string { return x.Pool + "/" + x.Session }), err
}

func nodeNames(ctx context.Context, c *client.Client, _ []string) ([]string, error) {
	var v api.NodeList
	err := c.Get(ctx, "/api/v1/nodes", &v)
	return named(v.Nodes, func(x view.Node) string { return x.Name }), err
}

// things offers kinds first, then the names of the kind that was chosen.
func things(ctx context.Context, c *client.Client, args []string) ([]string, error) {
	if len(args) == 0 {
		return []string{"node", "pool", "worker"}, nil
	}
	of := map[string]offer{"node": nodeNames, "pool": poolNames, "worker": workerIDs}[args[0]]
	if of == nil || len(args) > 1 {
		return nil, nil
	}
	return of(ctx, c, nil)
}

func named[T any](list []T, name func(T) string) []string {
	names := make([]string, len(list))
	for i, x := range list {
		names[i] = name(x)
	}
	return names
}
