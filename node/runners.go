package node

import (
	"slices"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/runtime"
)

// spec is what the pool's runtime is. Packs of other runtimes are not loaded.
func (c *poolConfigs) spec(p *pack.Pool) runtime.Spec {
	spec, _ := c.cfg.Runtimes.Of(p.Runtime)
	return *spec
}

// runner says how the pool's workers run things, and where each of their programs has its secrets from.
func (c *poolConfigs) runner(
	set *pack.Set, p *pack.Pool, secrets func(*pack.Pool) (actors.Secrets, error),
) func(*actors.WorkerConfig, messages.WorkerID, messages.Generation) actors.Runner {
	outfit := &actors.Outfit{
		Launcher: c.member.guardian, Env: c.programEnv(p), Limits: p.Limits, User: p.As, Umask: p.Umask, Output: c.cfg.OutputMax, FrameMax: c.cfg.FrameMax,
	}
	if len(p.Secrets) > 0 {
		outfit.Secrets = func() (actors.Secrets, error) { return secrets(p) }
	}
	spec, launch := c.spec(p), c.launch(p)
	switch spec.Lifetime {
	case runtime.InNode:
		return actors.InNodeRunner(c.catalog.handlers)
	case runtime.OneShot:
		return actors.OneShotRunner(outfit, func(a *messages.Action) runtime.Program {
			one := launch
			one.Root, one.Command, one.Entrypoint = a.Root, a.Command, a.Entrypoint
			return spec.Start(one)
		})
	}
	return actors.LongLivedRunner(outfit, program(set, p, spec.Process, spec.Start(launch), c.cfg.Data))
}

func (c *poolConfigs) programEnv(p *pack.Pool) []string {
	env := append(slices.Clone(c.env), userEnv(p.As)...)
	return append(env, flatten(p.Env)...)
}

// launch is what the pool's programs are started with.
func (c *poolConfigs) launch(p *pack.Pool) runtime.Launch {
	return runtime.Launch{Interpreter: c.cfg.Interpreters[p.Runtime], SDK: c.catalog.kits.of(p), Root: p.Root, Command: p.Command, Env: p.Env, BigNumbers: p.BigNumbers}
}

// program is what each worker of the pool keeps. Without a folder of the pool's own it runs in the data folder.
func program(set *pack.Set, p *pack.Pool, name string, started runtime.Program, data string) *actors.Program {
	program := &actors.Program{Name: name, Argv: started.Argv, Env: started.Env, Dir: p.Root}
	for _, ref := range p.Actions {
		if a, ok := set.Action(ref); ok {
			program.Actions = append(program.Actions, actors.ProgramAction{Ref: a.Ref, Root: a.Root, Entrypoint: a.Entrypoint})
		}
	}
	if program.Dir == "" {
		program.Dir = data
	}
	return program
}
