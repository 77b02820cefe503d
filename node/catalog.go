package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"sync/atomic"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/packs"
	"github.com/troupe-run/troupe/packs/corego"
	"github.com/troupe-run/troupe/process"
)

// catalog is what the node serves now: the packs as they were read last, with what their pools need beside their code.
type catalog struct {
	*base
	handlers map[string]messages.Handler
	secrets  secrets
	kits     kits
	packs    atomic.Pointer[pack.Set]
}

func newCatalog(b *base) *catalog {
	return &catalog{
		base: b, handlers: handlersOf(&b.cfg), secrets: secrets{env: b.cfg.variables, data: b.cfg.Data}, kits: kits{data: b.cfg.Data},
	}
}

// handlersOf are the built-in go handlers and the configuration's own, which win.
func handlersOf(cfg *Config) map[string]messages.Handler {
	all := map[string]messages.Handler{}
	if !cfg.NoBuiltins {
		for name, handler := range corego.Handlers() {
			all[name] = adapt(handler)
		}
	}
	maps.Copy(all, cfg.Handlers)
	return all
}

// adapt gives a built-in handler the shape of every other.
func adapt(h corego.Handler) messages.Handler {
	return func(ctx context.Context, t *messages.Task) (any, error) {
		value, err := h(ctx, t.Parameters)
		if failure, own := err.(*corego.Failure); own { //nolint:errorlint // the handlers return it bare
			return nil, &messages.Error{
				Code: messages.Code(failure.Code), Message: failure.Message, Retriable: failure.Retriable,
			}
		}
		return value, err
	}
}

// load reads the packs; a problem in any of them stops the start with all of them named.
func (c *catalog) load(context.Context) error {
	set, err := c.read()
	if err != nil {
		return fmt.Errorf("packs cannot be loaded:\n%w", err)
	}
	c.packs.Store(set)
	return nil
}

// save tells the store of the actions.
func (c *catalog) save(ctx context.Context) error { return c.store.SaveActions(ctx, c.set().Actions) }

// adopt saves the actions of a set and makes it the one that is served.
func (c *catalog) adopt(ctx context.Context, set *pack.Set) error {
	if err := c.store.SaveActions(ctx, set.Actions); err != nil {
		return err
	}
	c.packs.Store(set)
	return nil
}

// read reads the packs, and gets ready what their pools need beside their code. What is served stays as it is.
func (c *catalog) read() (*pack.Set, error) {
	set, err := pack.Load(append(c.builtins(), c.cfg.Packs...), pack.Options{
		MaxRetries: c.cfg.MaxRetries, Workers: c.cfg.Workers, Runtimes: c.cfg.Runtimes, Registered: c.cfg.Actions,
		HasHandler: func(name string) bool { _, ok := c.handlers[name]; return ok }, User: lookUpUser, Script: process.ScriptProblem,
	})
	if err != nil {
		return nil, err
	}
	for _, warning := range set.Warnings {
		c.logger.Warn("pack loaded with a warning", "warning", warning)
	}
	if err := c.secrets.take(set.Pools); err != nil {
		c.logger.Warn("secrets of this node are in sight of its user's processes", "error", err)
	}
	return set, c.kits.write(set)
}

// builtins are the folders of the built-in packs that this node can serve.
func (c *catalog) builtins() (dirs []string) {
	if c.cfg.NoBuiltins {
		return nil
	}
	for _, name := range packs.Names() {
		if name == "demo" && c.cfg.NoDemo {
			continue
		}
		if spec, needs := c.cfg.Runtimes.Of(packs.Needs(name)); needs && !hasProgram(c.cfg.Interpreters[spec.Name]) {
			c.logger.Info("the "+name+" pack is left out: no "+spec.Interpreter.Title+" interpreter", string(spec.Name), c.cfg.Interpreters[spec.Name])
			continue
		}
		dirs = append(dirs, packs.Path(c.cfg.Data, name))
	}
	return dirs
}

func hasProgram(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

func (c *catalog) set() *pack.Set { return c.packs.Load() }

func (c *catalog) action(ref, _ string) (*messages.Action, bool) { return c.set().Action(ref) }

func (c *catalog) serves(ref string) bool {
	_, ok := c.action(ref, "")
	return ok
}

// redact removes the action's secret parameters, and the secrets of its pool from the others.
func (c *catalog) redact(ref string, parameters json.RawMessage) json.RawMessage {
	a, ok := c.action(ref, "")
	if !ok {
		return parameters
	}
	clean := pack.Redact(a, parameters)
	if p, ok := c.set().Pool(a.Pool); ok {
		return c.secrets.shown(p, clean)
	}
	return clean
}
