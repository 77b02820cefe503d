package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/supervisor"
)

// refusedReload is a reload that was refused: the code from before it runs on, until another one succeeds.
type refusedReload struct {
	at    time.Time
	why   string                       // in a line
	pools map[string]api.ReloadFailure // that could not start a worker, by name
	kept  map[string]bool              // pools that would have been replaced, and were not
}

// reloader reads the packs, the tokens and the certificates again, and refuses what would leave a pool without workers.
type reloader struct {
	*base
	catalog *catalog
	configs *poolConfigs
	starter *poolStarter
	secured func() error // reads the tokens and the certificates again

	turn     chan struct{} // holds one while a reload is under way
	adopting sync.Mutex    // held while the node takes up the packs of a reload
	// refused is the last reload, where it was refused.
	refused atomic.Pointer[refusedReload]
}

// trialsMax is how many pools try their worker at a time: each may load much.
const trialsMax = 4

// reload reads the packs again. It first starts one worker of each pool that changed, and of each whose workers fail, beside the
// pool. A problem of a pack, or of a worker of a pool that is new or works, leaves everything as it is; a pool that was broken before has
// no code to go on with. Running work finishes on the old version; workers are replaced one by one. One reload goes on at a time.
// The end of ctx ends it, with the workers that it tries, until it takes up what it has read; so does a stop of the node, which
// refuses it. By is who asks; empty: a signal.
func (r *reloader) reload(ctx context.Context, by string) (api.ReloadReport, error) {
	ctx, release := r.untilLeaving(ctx)
	defer release()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return api.ReloadReport{}, context.Cause(ctx)
	}
	if by != "" {
		r.logger.Info("packs are read again for an operator", "node", r.cfg.Name, "by", by)
	}
	if err := r.secured(); err != nil {
		return api.ReloadReport{}, err
	}
	set, err := r.catalog.read()
	if err != nil {
		return api.ReloadReport{}, r.refuseReload(&refusedReload{why: err.Error()},
			&messages.Problem{Code: messages.CodeInvalidPacks, Message: err.Error()})
	}
	old := r.catalog.set()
	changes := pack.Diff(old, set)
	was := r.pools.DescribeAll(ctx)
	tried := toTry(was, set, changes)
	failures := r.tryPools(ctx, old, set, tried)
	if ctx.Err() != nil {
		return api.ReloadReport{}, context.Cause(ctx)
	}
	if bad := worseOf(failures, was, changes); len(bad) > 0 {
		return api.ReloadReport{}, r.refuseTrials(bad, changes)
	}
	// From here on a caller who leaves changes nothing.
	r.adopting.Lock()
	defer r.adopting.Unlock()
	if r.phase.draining.Load() {
		return api.ReloadReport{}, errLeaving
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := r.adopt(limited, set, changes, mendedOf(tried, failures), by); err != nil {
		return api.ReloadReport{}, err
	}
	r.refused.Store(nil)
	r.journal.operator(ctx, "reload", r.cfg.Name, by)
	r.logger.Info("packs loaded again", "added", changes.ActionsAdded, "removed", changes.ActionsRemoved,
		"changed", changes.ActionsChanged, "replaced", changes.PoolsReplaced)
	return report(set, changes, failures), nil
}

// errLeaving refuses a reload at a node that drains: what it would start or replace is about to end.
var errLeaving = &messages.Problem{Code: messages.CodeDraining, Message: "nothing is reloaded: this node is shutting down"}

// untilLeaving is ctx, ended early with errLeaving where the node is told to stop, or has been.
func (r *reloader) untilLeaving(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if r.phase.draining.Load() {
		cancel(errLeaving)
	}
	release := context.AfterFunc(r.phase.leaves, func() { cancel(errLeaving) })
	return ctx, func() {
		release()
		cancel(nil)
	}
}

// adopt makes the set the node's own. Mended are the pools of which a worker has just started. By is who asked.
func (r *reloader) adopt(ctx context.Context, set *pack.Set, changes pack.Changes, mended map[string]bool, by string) error {
	if err := r.catalog.adopt(ctx, set); err != nil {
		return err
	}
	for _, name := range changes.PoolsRemoved {
		r.starter.retire(name, by)
	}
	for i := range set.Pools {
		if err := r.starter.apply(ctx, set, &set.Pools[i], mended[set.Pools[i].Name], by); err != nil {
			return err
		}
	}
	return nil
}

// adopted waits for a reload that has begun to take up its packs, which takes closeTimeout at most, so that no pool gets new workers
// once it drains.
func (r *reloader) adopted() {
	r.adopting.Lock()
	defer r.adopting.Unlock()
}

// toTry names the pools that a reload tries: those that are new or changed, and those that do not run as they should.
func toTry(was map[string]supervisor.Description, set *pack.Set, changes pack.Changes) []string {
	tried := slices.Concat(changes.PoolsAdded, changes.PoolsReplaced)
	for name, d := range was {
		if _, served := set.Pool(name); served && (d.State != restart.Steady || d.OldCode > 0) && !slices.Contains(tried, name) {
			tried = append(tried, name)
		}
	}
	slices.Sort(tried)
	return tried
}

// tryPools starts a worker of each of the pools, and returns why some did not start, by the names of the pools. Once ctx ends it
// starts no more, and returns when those that it had started are gone.
func (r *reloader) tryPools(ctx context.Context, old, set *pack.Set, tried []string) (failures []api.ReloadFailure) {
	var mu sync.Mutex
	var trials sync.WaitGroup
	room := make(chan struct{}, trialsMax)
	for _, name := range tried {
		trials.Go(func() {
			select {
			case room <- struct{}{}:
				defer func() { <-room }()
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				return
			}
			if f := r.tryPool(ctx, old, set, name); f != nil {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, *f)
			}
		})
	}
	trials.Wait()
	slices.SortFunc(failures, func(a, b api.ReloadFailure) int { return strings.Compare(a.Pool, b.Pool) })
	return failures
}

// tryPool starts one worker of a pool and ends it again; nil: it could take work.
func (r *reloader) tryPool(ctx context.Context, old, set *pack.Set, name string) *api.ReloadFailure {
	p, ok := set.Pool(name)
	if !ok {
		return nil
	}
	worker := r.configs.trial(set, p)
	err := actors.Try(ctx, &worker, messages.NewWorkerID(worker.Node, p.Name, 0))
	if err == nil {
		return nil
	}
	f := &api.ReloadFailure{Pool: name, Packs: pack.PacksOf(old, set, name), Error: messages.ClipText(err.Error(), operate.FailureMax)}
	if failed, ok := err.(*actors.StartError); ok { //nolint:errorlint // Try returns it bare
		f.Traceback = failed.Traceback
	}
	for _, ref := range p.Actions { // an SDK names the action that it could not load
		if a, _ := set.Action(ref); strings.HasPrefix(f.Error, "action "+ref+":") {
			f.Packs = []string{a.Pack}
		}
	}
	return f
}

// worseOf are the failures that the reload would bring: of pools that are new, or that change and are not broken yet.
func worseOf(failures []api.ReloadFailure, was map[string]supervisor.Description, c pack.Changes) (bad []api.ReloadFailure) {
	for _, f := range failures {
		changes := slices.Contains(c.PoolsReplaced, f.Pool) && was[f.Pool].State != restart.Broken
		if changes || slices.Contains(c.PoolsAdded, f.Pool) {
			bad = append(bad, f)
		}
	}
	return bad
}

// mendedOf are the pools that were tried and did not fail.
func mendedOf(tried []string, failures []api.ReloadFailure) map[string]bool {
	mended := map[string]bool{}
	for _, name := range tried {
		mended[name] = true
	}
	for _, f := range failures {
		delete(mended, f.Pool)
	}
	return mended
}

// refuseTrials refuses a reload whose new workers did not start.
func (r *reloader) refuseTrials(bad []api.ReloadFailure, c pack.Changes) error {
	refused := &refusedReload{pools: map[string]api.ReloadFailure{}, kept: map[string]bool{}}
	lines := make([]string, len(bad))
	for i, f := range bad {
		refused.pools[f.Pool], lines[i] = f, f.String()
	}
	for _, name := range c.PoolsReplaced {
		refused.kept[name] = true
	}
	refused.why = strings.Join(lines, "; ")
	return r.refuseReload(refused, &messages.Problem{
		Code:    messages.CodeReloadFailed,
		Message: "nothing is reloaded, the code from before runs on: " + strings.Join(lines, "; "),
		Details: api.ReloadFailures{Pools: bad},
	})
}

// refuseReload remembers a refused reload, to tell of it, and returns the problem.
func (r *reloader) refuseReload(refused *refusedReload, problem *messages.Problem) error {
	refused.at = time.Now()
	r.refused.Store(refused)
	return problem
}

// note tells /readyz and doctor of a refused reload.
func (r *refusedReload) note() string {
	return fmt.Sprintf("the reload at %s was refused, and the code from before it runs on: %s", r.at.Format(time.RFC3339), messages.ClipText(r.why, operate.FailureMax))
}

// mark tells of a refused reload at the pools that would have changed.
func (r *refusedReload) mark(v *view.Pool) {
	if r == nil || !r.kept[v.Name] {
		return
	}
	v.OldCode = true
	why := fmt.Sprintf("reload refused at %s: ", r.at.Format(time.TimeOnly))
	if f, own := r.pools[v.Name]; own {
		why += "pack " + strings.Join(f.Packs, ", ") + ": " + f.Error
	} else {
		why += r.why
	}
	if v.Reason == "" {
		v.Reason = messages.ClipText(why, operate.FailureMax)
	}
}

func report(set *pack.Set, c pack.Changes, failures []api.ReloadFailure) api.ReloadReport {
	r := api.ReloadReport{
		Added: c.ActionsAdded, Removed: c.ActionsRemoved, Changed: c.ActionsChanged, Replaced: c.PoolsReplaced, Broken: failures,
	}
	for i := range set.Packs {
		r.Packs = append(r.Packs, set.Packs[i].Name+" "+set.Packs[i].Version)
	}
	return r
}
