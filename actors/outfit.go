package actors

import (
	"context"
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/mask"
)

// Outfit is what the processes of a pool are started with.
type Outfit struct {
	Launcher process.Launcher
	Env      []string       // the allow-listed environment with the pool's own
	User     *messages.User // nil: the node's own
	Umask    *uint32        // nil: the node's own
	Limits   messages.Limits
	Output   int // bytes kept of each of stdout and stderr; 0: the default
	FrameMax int
	// Secrets returns the pool's secrets of now, for one program. Nil: it has none.
	Secrets func() (Secrets, error)
}

// Secrets are what one program gets of its pool's secrets.
type Secrets struct {
	Env   []string  // variables
	Masks *mask.Set // takes the values out of texts
	// Done is called once, when the program is gone or could not be started. Nil: nobody needs to know.
	Done func()
}

// secrets are one program's.
func (o *Outfit) secrets() (Secrets, error) {
	if o.Secrets == nil {
		return Secrets{}, nil
	}
	return o.Secrets()
}

// start starts a program with its secrets, and is done with them when it ends.
func (o *Outfit) start(ctx context.Context, spec process.Spec, s Secrets, sink func(process.Event)) (process.Process, error) {
	spec.Limits, spec.OutputMax, spec.User, spec.Umask = o.Limits, o.Output, o.User, o.Umask
	spec.Env, spec.Masks = append(slices.Clone(spec.Env), s.Env...), s.Masks
	if s.Done == nil {
		return o.Launcher.Start(ctx, spec, sink)
	}
	started, err := o.Launcher.Start(ctx, spec, func(e process.Event) {
		if _, over := e.(process.Exited); over {
			s.Done()
		}
		sink(e)
	})
	if err != nil {
		s.Done()
	}
	return started, err
}
