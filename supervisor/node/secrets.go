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

	"github.com/troupe-run/troupe/actors/mask"
	"github.com/troupe-run/troupe/actors/process"
	"github.com/troupe-run/troupe/supervisor/pack"
)

// secrets holds what the node knows of its pools' secrets: the values of its own environment that packs name, and of each pool
// what takes its values out of texts. Values are never logged, stored or answered.
type secrets struct {
	forget func([]string) error // takes variables out of what /proc shows of the node; nil: nothing does

	mu    sync.Mutex
	env   map[string]string // variables that packs name; the environment has them no more
	pools map[string]masked
}

// masked is a pool's masks, with the values that they were made of.
type masked struct {
	values []string
	set    *mask.Set
}

// take moves the variables that the pools name out of the node's environment.
func (s *secrets) take(pools []pack.Pool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for i := range pools {
		for _, source := range pools[i].Secrets {
			if value, set := os.LookupEnv(source.Env); source.Env != "" && set {
				if s.env == nil {
					s.env = map[string]string{}
				}
				s.env[source.Env] = value
				names = append(names, source.Env)
			}
		}
	}
	if len(names) == 0 || s.forget == nil {
		return nil
	}
	slices.Sort(names)
	return s.forget(slices.Compact(names))
}

// read returns the variables with the pool's values of now, and what masks them.
func (s *secrets) read(p *pack.Pool) (env []string, set *mask.Set, err error) {
	var values []string
	for _, name := range slices.Sorted(maps.Keys(p.Secrets)) {
		value, err := s.value(p.Secrets[name])
		if err == nil {
			err = mask.Check(value)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("pool %s: secret %s: %w", p.Name, name, err)
		}
		env, values = append(env, name+"="+value), append(values, value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.pools[p.Name]; slices.Equal(known.values, values) {
		return env, known.set, nil
	}
	if set, err = mask.New(values); err != nil {
		return nil, nil, fmt.Errorf("pool %s: secrets: %w", p.Name, err)
	}
	if s.pools == nil {
		s.pools = map[string]masked{}
	}
	s.pools[p.Name] = masked{values, set}
	return env, set, nil
}

// value is what a source has now. An error names the source and does not show the value.
func (s *secrets) value(source pack.Secret) (string, error) {
	if source.Env != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		value, set := s.env[source.Env]
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
	if len(p.Secrets) == 0 || len(parameters) == 0 {
		return parameters
	}
	s.mu.Lock()
	known := s.pools[p.Name]
	s.mu.Unlock()
	if known.set == nil {
		if _, set, err := s.read(p); err == nil {
			return set.JSON(parameters)
		}
		return json.RawMessage(`"` + mask.Mark + `"`)
	}
	return known.set.JSON(parameters)
}
