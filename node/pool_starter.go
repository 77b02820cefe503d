package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/supervisor"
)

const poolsPath = "troupe/pools"

// poolStarter starts the pools of the packs, brings them to other packs, drains and ends them.
type poolStarter struct {
	*base
	configs *poolConfigs
	member  *member
	routing *routing
}

// startAll starts a supervisor for every pool that an action uses.
func (s *poolStarter) startAll(ctx context.Context, set *pack.Set) error {
	for i := range set.Pools {
		if p := &set.Pools[i]; len(p.Actions) > 0 {
			if err := s.start(ctx, set, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *poolStarter) start(ctx context.Context, set *pack.Set, p *pack.Pool) error {
	handle := &poolHandle{memory: &supervisor.Memory{}}
	config := s.configs.pool(set, p)
	handle.config.Store(&config)
	limited, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	pid, err := actors.Ask[supervisor.AddChild, *actor.PID](limited, s.system, s.system.PID(poolsPath), supervisor.AddChild{
		Spec: func() actors.Child { return supervisor.NewPool(*handle.config.Load(), handle.memory, &handle.openings) },
	})
	if err != nil {
		return fmt.Errorf("start pool %s: %w", p.Name, err)
	}
	handle.pid = pid
	s.pools.add(p.Name, handle)
	s.member.tellDown(pid)
	return nil
}

// apply brings one pool to its new configuration. Mended: a worker of it has just started with that. By is who asked.
func (s *poolStarter) apply(ctx context.Context, set *pack.Set, p *pack.Pool, mended bool, by string) error {
	if len(p.Actions) == 0 {
		return nil
	}
	handle := s.pools.of(p.Name)
	if handle == nil {
		return s.start(ctx, set, p)
	}
	config := s.configs.pool(set, p)
	handle.config.Store(&config)
	s.system.Send(handle.pid, &supervisor.Replace{Config: config, Mended: mended, By: by})
	return nil
}

// retire drains a pool that no action uses any more and stops its supervisor.
func (s *poolStarter) retire(name, by string) {
	handle := s.pools.remove(name)
	if handle == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.cfg.ShutdownTimeout+time.Minute)
		defer cancel()
		_, err := actors.Ask[supervisor.Drain, struct{}](ctx, s.system, handle.pid,
			supervisor.Drain{Until: time.Now().Add(s.cfg.ShutdownTimeout), By: by})
		if err != nil {
			s.logger.Warn("removed pool did not drain", "pool", name, "error", err)
		}
		s.routing.forgetRouter(ctx, name)
		group := s.system.PID(poolsPath)
		if _, err := actors.Ask[supervisor.ForgetChild, struct{}](ctx, s.system, group, supervisor.ForgetChild{PID: handle.pid}); err != nil {
			s.logger.Warn("removed pool not forgotten", "pool", name, "error", err)
		}
		if err := s.system.StopAndWait(ctx, handle.pid); err != nil {
			s.logger.Warn("removed pool did not stop", "pool", name, "error", err)
		}
	}()
}

// drainAll drains every pool at once and waits for all of them. The ladder of what is stopped at the end takes its
// graces, and a little for the last writes.
func (s *poolStarter) drainAll(ctx context.Context) {
	until := time.Now().Add(s.cfg.ShutdownTimeout)
	limit := s.cfg.ShutdownTimeout + graces(s.cfg.Graces) + 5*time.Second
	ctx, release := s.member.untilOver(ctx) // the work of a fenced node may not go on
	defer release()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	by := ""
	if who := s.phase.drainedBy.Load(); who != nil {
		by = *who
	}
	var all sync.WaitGroup
	for name, handle := range s.pools.all() {
		all.Go(func() {
			if _, err := actors.Ask[supervisor.Drain, struct{}](ctx, s.system, handle.pid, supervisor.Drain{Until: until, By: by}); err != nil {
				s.logger.Warn("pool did not drain", "pool", name, "error", err)
			}
		})
	}
	all.Wait()
}
