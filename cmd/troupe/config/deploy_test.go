package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestDeployFiles: each file under deploy/ sets only keys that exist, to values that a node starts with, spells out
// the times that depend on each other, and gives the node at least the grace that it says it has.
func TestDeployFiles(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(t *testing.T) (env []string, grace time.Duration){
		"compose": readCompose, "systemd": readUnit, "kubernetes": readManifests,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, grace := read(t)
			for i, e := range env {
				key, value, _ := strings.Cut(e, "=")
				if strings.HasPrefix(value, "${") || strings.Contains(value, ":${") {
					env[i] = key + "=" + secretLike(key)
				}
			}
			l, err := Load(Sources{Environ: env})
			require.NoError(t, err)
			require.Empty(t, l.Warnings, "a variable that is no key")
			require.Equal(t, 45*time.Second, grace)
			require.Equal(t, grace, l.Shutdown.PlatformGrace)
			require.LessOrEqual(t, l.DrainBudget(), grace)
			set := strings.Join(env, "\n")
			for _, key := range []string{"WORKER_QUEUE_TTL_MS", "DEAD_LETTER_ENABLED", "DEAD_LETTER_EXCHANGE", "DEAD_LETTER_TTL_MS"} {
				require.Contains(t, set, "TROUPE_MESSAGE_QUEUE_RABBITMQ_"+key+"=")
			}
		})
	}
}

// secretLike stands for what an operator puts in.
func secretLike(key string) string {
	switch key {
	case "TROUPE_STORE_URL":
		return "postgres://troupe:secret@postgres:5432/troupe"
	case "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL":
		return "amqp://troupe:secret@rabbitmq:5672/"
	case "TROUPE_TOKENS":
		return "admin:admin:0123456789abcdef0123456789abcdef"
	}
	return "x"
}

func deployed(t *testing.T, name string) []byte {
	raw, err := os.ReadFile(filepath.Join("../../../deploy", name))
	require.NoError(t, err)
	return raw
}

func readCompose(t *testing.T) ([]string, time.Duration) {
	var file struct {
		Services map[string]struct {
			Environment map[string]string `yaml:"environment"`
			Grace       string            `yaml:"stop_grace_period"`
		} `yaml:"services"`
	}
	require.NoError(t, yaml.Unmarshal(deployed(t, "compose.yaml"), &file))
	node := file.Services["troupe"]
	grace, err := time.ParseDuration(node.Grace)
	require.NoError(t, err)
	env := []string{"HOME=/"}
	for key, value := range node.Environment {
		if strings.Contains(value, "${") {
			value = "${" // filled in by the caller
		}
		env = append(env, key+"="+value)
	}
	return env, grace
}

func readUnit(t *testing.T) ([]string, time.Duration) {
	env, grace := []string{"HOME=/"}, time.Duration(0)
	for line := range strings.Lines(string(deployed(t, "troupe.service"))) {
		line = strings.TrimSpace(line)
		if set, ok := strings.CutPrefix(line, "Environment="); ok {
			env = append(env, set)
		}
		if seconds, ok := strings.CutPrefix(line, "TimeoutStopSec="); ok {
			var err error
			grace, err = time.ParseDuration(seconds + "s")
			require.NoError(t, err)
		}
	}
	return env, grace
}

func readManifests(t *testing.T) ([]string, time.Duration) {
	type manifest struct {
		Kind string `yaml:"kind"`
		Spec struct {
			Template struct {
				Spec struct {
					Grace      int `yaml:"terminationGracePeriodSeconds"`
					Containers []struct {
						Env []struct {
							Name, Value string
						} `yaml:"env"`
					} `yaml:"containers"`
				} `yaml:"spec"`
			} `yaml:"template"`
		} `yaml:"spec"`
	}
	d := yaml.NewDecoder(strings.NewReader(string(deployed(t, "kubernetes/troupe.yaml"))))
	for {
		var m manifest
		require.NoError(t, d.Decode(&m), "no StatefulSet")
		if m.Kind != "StatefulSet" {
			continue
		}
		pod := m.Spec.Template.Spec
		env := []string{"HOME=/", "TROUPE_DATA=/var/lib/troupe"}
		for _, e := range pod.Containers[0].Env {
			if e.Value == "" { // from a secret or a field
				e.Value = secretLike(e.Name)
			}
			env = append(env, e.Name+"="+e.Value)
		}
		return env, time.Duration(pod.Grace) * time.Second
	}
}
