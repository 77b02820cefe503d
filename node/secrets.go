package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/mask"
)

// secrets holds what the node knows of its pools' secrets: the values of its own environment that packs name, and of each pool
// what takes its values out of texts. Values are never logged, stored or answered.
type secrets struct {
	env  *variables
	data string // the node's data folder, which names the folder of the files

	mu    sync.Mutex
	pools map[string]*poolMasks
}

// variables are those that packs and webhooks name. The environment has them no more, so they are the process's: an incarnation after
// one that was fenced has them from that one.
type variables struct {
	forget func([]string) error // takes variables out of what /proc shows of the node; nil: nothing does

	mu     sync.Mutex
	values map[string]string
}

// poolMasks are what a pool's parameters are masked with: the values that were read last for a worker of the pool, and those
// that its programs were started with and still run with.
type poolMasks struct {
	now  *masked // nil: none were read yet
	used map[*masked]int
}

// masked is a set of values and what masks them.
type masked struct {
	values []string
	set    *mask.Set
}

// find returns the pool's own for these values, or nil.
func (p *poolMasks) find(values []string) *masked {
	if p.now != nil && slices.Equal(p.now.values, values) {
		return p.now
	}
	for m := range p.used {
		if slices.Equal(m.values, values) {
			return m
		}
	}
	return nil
}

// take moves the variables that the pools name out of the node's environment.
func (s *secrets) take(pools []pack.Pool) error {
	var names []string
	for i := range pools {
		for _, source := range pools[i].Secrets {
			if source.Env != "" {
				names = append(names, source.Env)
			}
		}
	}
	return s.env.take(names)
}

// take moves variables out of the node's environment.
func (v *variables) take(names []string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var found []string
	for _, name := range names {
		if value, set := os.LookupEnv(name); set {
			if v.values == nil {
				v.values = map[string]string{}
			}
			v.values[name] = value
			found = append(found, name)
		}
	}
	if len(found) == 0 || v.forget == nil {
		return nil
	}
	slices.Sort(found)
	return v.forget(slices.Compact(found))
}

// get is what a variable was when it was taken.
func (v *variables) get(name string) (value string, set bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	value, set = v.values[name]
	return value, set
}

// use returns the secrets of a program that is about to start. Their values are masked in what is shown until it is gone, and
// for as long as no others were read for a program of the pool.
func (s *secrets) use(p *pack.Pool) (actors.Secrets, error) {
	all, values, err := s.read(p)
	if err != nil {
		return actors.Secrets{}, err
	}
	env, remove, err := s.hand(p, all)
	if err != nil {
		return actors.Secrets{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.keep(p.Name, values)
	if err != nil {
		remove()
		return actors.Secrets{}, err
	}
	of := s.pools[p.Name]
	of.used[m]++
	return actors.Secrets{Env: env, Masks: m.set, Done: sync.OnceFunc(func() {
		remove()
		s.mu.Lock()
		defer s.mu.Unlock()
		if of.used[m]--; of.used[m] == 0 {
			delete(of.used, m)
		}
	})}, nil
}

// lend returns the secrets of a program that tries a pool which is not served yet, and perhaps never will be: nothing of them
// is kept.
func (s *secrets) lend(p *pack.Pool) (actors.Secrets, error) {
	all, values, err := s.read(p)
	if err != nil {
		return actors.Secrets{}, err
	}
	set, err := maskOf(p.Name, values)
	if err != nil {
		return actors.Secrets{}, err
	}
	env, remove, err := s.hand(p, all)
	return actors.Secrets{Env: env, Masks: set, Done: remove}, err
}

// keep makes the values the pool's, under the lock.
func (s *secrets) keep(pool string, values []string) (*masked, error) {
	if s.pools == nil {
		s.pools = map[string]*poolMasks{}
	}
	of := s.pools[pool]
	if of == nil {
		of = &poolMasks{used: map[*masked]int{}}
		s.pools[pool] = of
	}
	m := of.find(values)
	if m == nil {
		set, err := maskOf(pool, values)
		if err != nil {
			return nil, err
		}
		m = &masked{values, set}
	}
	of.now = m
	return m, nil
}

func maskOf(pool string, values []string) (*mask.Set, error) {
	set, err := mask.New(values)
	if err != nil {
		return nil, fmt.Errorf("pool %s: secrets: %w", pool, err)
	}
	return set, nil
}

// read returns the pool's secrets of now, and their values.
func (s *secrets) read(p *pack.Pool) (all []given, values []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(p.Secrets)) {
		value, err := s.value(p.Secrets[name])
		if err == nil {
			err = mask.Check(value)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("pool %s: secret %s: %w", p.Name, name, err)
		}
		all, values = append(all, given{name, value, p.Secrets[name].AsFile}), append(values, value)
	}
	return all, values, nil
}

// value is what a source has now. An error names the source and does not show the value.
func (s *secrets) value(source pack.Secret) (string, error) {
	if source.Env != "" {
		value, set := s.env.get(source.Env)
		if !set {
			return "", fmt.Errorf("the node's environment has no %s: set it where the node is started", source.Env)
		}
		return value, nil
	}
	file, err := os.OpenFile(source.File, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe must not hold the node up
	if err = process.Short(err); errors.Is(err, process.ErrShortage) {
		return "", err
	}
	if err != nil {
		return "", fmt.Errorf("%w: the node's user must be able to read it", err)
	}
	defer file.Close() // read only
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(fmt.Errorf("%s is not a regular file", source.File), err)
	}
	text, err := io.ReadAll(io.LimitReader(file, mask.ValueMax+3))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", source.File, err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

// shown masks the parameters of a pool's execution, for people. Where the pool's values cannot be read nothing of them is shown.
func (s *secrets) shown(p *pack.Pool, parameters json.RawMessage) json.RawMessage {
	if len(parameters) == 0 {
		return parameters
	}
	if err := s.know(p); err != nil {
		return json.RawMessage(`"` + mask.Mark + `"`)
	}
	for _, set := range s.sets(p) {
		parameters = set.JSON(parameters)
	}
	return parameters
}

// know reads the values of a pool of which no program was started yet.
func (s *secrets) know(p *pack.Pool) error {
	known := func() bool { return s.pools[p.Name] != nil && s.pools[p.Name].now != nil }
	s.mu.Lock()
	enough := len(p.Secrets) == 0 || known()
	s.mu.Unlock()
	if enough {
		return nil
	}
	_, values, err := s.read(p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !known() { // a program's are newer
		_, err = s.keep(p.Name, values)
	}
	return err
}

// sets are what the pool's parameters are masked with, each once: no more than the pool has programs, and one.
func (s *secrets) sets(p *pack.Pool) (sets []*mask.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.pools[p.Name]
	if of == nil {
		return nil
	}
	if len(p.Secrets) > 0 {
		sets = append(sets, of.now.set)
	}
	for m := range of.used {
		if m != of.now || len(p.Secrets) == 0 {
			sets = append(sets, m.set)
		}
	}
	return sets
}
