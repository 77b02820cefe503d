package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/test/servers"
)

// notHandedOn are the keys that the node itself never sees.
var notHandedOn = map[string]bool{
	"log.level": true, "log.format": true, "debug.pprof_listen": true, "shutdown.platform_grace": true,
}

// together are the keys that a key needs beside it.
func together(path string) []string {
	const storeURL, brokerURL = "TROUPE_STORE_URL=postgres://h/d", "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL=amqps://h/"
	if path == "store.url" || path == "message_queue.rabbitmq.url" || strings.HasPrefix(path, "message_queue.rabbitmq.tls.") {
		return []string{storeURL, brokerURL, "TROUPE_MESSAGE_QUEUE_RABBITMQ_TLS_CERT_FILE=c", "TROUPE_MESSAGE_QUEUE_RABBITMQ_TLS_KEY_FILE=k"}
	}
	if strings.HasPrefix(path, "tls.") {
		return []string{"TROUPE_TLS_CERT_FILE=c", "TROUPE_TLS_KEY_FILE=k"}
	}
	if path == "webhooks.on" || path == "webhooks.secret" {
		return []string{"TROUPE_WEBHOOKS_URL=https://hooks.example/", "TROUPE_WEBHOOKS_SECRETS=billing=env:X"}
	}
	if path == "health_metrics" {
		return []string{"TROUPE_HEALTH_LISTEN=127.0.0.1:2"}
	}
	if strings.HasPrefix(path, "node.peers_") {
		return []string{storeURL, brokerURL, "TROUPE_NODE_PEERS_LISTEN=127.0.0.1:7071", "TROUPE_NODE_PEERS_CA_FILE=a",
			"TROUPE_NODE_PEERS_CERT_FILE=c", "TROUPE_NODE_PEERS_KEY_FILE=k"}
	}
	return nil
}

// sample is a valid value of each key that differs from its default.
func sample(k *config.Key) string {
	switch k.Path {
	case "listen", "health_listen", "node.peers_listen", "node.peers_advertise":
		return "127.0.0.1:1"
	case "tls.cert_file", "tls.key_file", "tls.client_ca_file", "node.peers_ca_file", "node.peers_cert_file", "node.peers_key_file":
		return "x"
	case "data", "node.name", "message_queue.rabbitmq.prefix", "message_queue.rabbitmq.dead_letter.exchange", "packs", "runtime.python", "runtime.node", "runtime.env_pass":
		return "x"
	case "store.url":
		return "postgres://other/db"
	case "message_queue.rabbitmq.url":
		return "amqps://other/"
	case "message_queue.rabbitmq.tls.ca_file", "message_queue.rabbitmq.tls.cert_file", "message_queue.rabbitmq.tls.key_file",
		"message_queue.rabbitmq.tls.server_name":
		return "x"
	case "node.beat_interval":
		return "0.5"
	case "webhooks.allow":
		return "hooks.example"
	case "webhooks.secrets":
		return "billing=env:X"
	case "webhooks.url":
		return "https://hooks.example/"
	case "webhooks.on":
		return "failed"
	case "webhooks.secret":
		return "billing"
	case "dispatch":
		return "direct"
	case "pools":
		return "go:direct"
	case "tokens_file":
		return "testdata/tokens.yaml"
	case "tokens":
		return "ci:read:0123456789abcdef"
	case "store.events":
		return "all"
	case "message_queue.rabbitmq.queue_type":
		return "classic"
	case "message_queue.rabbitmq.worker_queue_ttl_ms":
		return "200000"
	case "message_queue.rabbitmq.dead_letter.ttl_ms":
		return "200000"
	case "pool.backoff_base", "executor.claim_timeout", "tracing.timeout":
		return "7"
	case "executor.scheduled_timeout":
		return "400"
	case "health.degraded_threshold", "health.unhealthy_threshold", "health.queue_depth_degraded":
		return "7"
	case "http.base_path":
		return "/ops/troupe"
	case "tracing.endpoint":
		return "http://collector:4318"
	case "health.failure_rate_degraded", "health.failure_rate_unhealthy", "retry.jitter_factor", "tracing.sample_ratio":
		return "0.5"
	case "limits.bodies":
		return "16MiB"
	case "limits.frame", "limits.output":
		return "2MiB"
	}
	switch k.Default {
	case "true":
		return "false"
	case "false":
		return "true"
	}
	if word := map[string]string{"retry.unclassified": "final", "retry.backoff_shape": "linear", "console.mode": "off", "console.payloads": "hide"}[k.Path]; word != "" {
		return word
	}
	return "77"
}

func nodeSettings(t *testing.T, environ ...string) string {
	t.Helper()
	loaded, err := config.Load(config.Sources{Environ: append([]string{"HOME=/h"}, environ...)})
	require.NoError(t, err)
	n := nodeConfig(&loaded.Config, nil)
	require.Nil(t, n.Fatal)
	return fmt.Sprintf("%+v", n)
}

func TestEveryKeyReachesTheNode(t *testing.T) {
	t.Parallel()
	for _, k := range config.Defaults() {
		if notHandedOn[k.Path] {
			continue
		}
		usual := nodeSettings(t, together(k.Path)...)
		require.NotEqual(t, usual, nodeSettings(t, append(together(k.Path), k.Env+"="+sample(k))...), "%s has no effect", k.Path)
	}
}

// TestTheNodeProcess runs the built binary as a person does: start, submit, reload, stop.
func TestTheNodeProcess(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	binary := filepath.Join(folder, "troupe")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	address := servers.OwnAddress()
	log, err := os.Create(filepath.Join(folder, "log"))
	require.NoError(t, err)
	defer log.Close()
	node := exec.Command(binary, "node", "--listen", address, "--data", filepath.Join(folder, "data"), "--shutdown-timeout", "5")
	node.Stdout, node.Stderr = log, log
	require.NoError(t, node.Start())
	ended := make(chan error, 1)
	go func() { ended <- node.Wait() }()
	defer func() { _ = node.Process.Kill() }()
	untilReady(t, address, ended)

	run := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Env = append(os.Environ(), "TROUPE_SERVER="+address)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	text, code := run("submit", "core.echo", "message=hi", "--wait")
	require.Equal(t, 0, code, text)
	require.JSONEq(t, `{"message":"hi"}`, text)
	text, code = run("submit", "core.fail", "message=boom", "--wait")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "boom")
	text, code = run("node", "--listen", address, "--data", filepath.Join(folder, "other"))
	require.Equal(t, 1, code, text)
	require.Contains(t, text, address)
	require.Contains(t, text, "--listen", "a port in use says what to do")

	require.NoError(t, node.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { // two signals that are pending at once come in no certain order
		said, err := os.ReadFile(log.Name())
		return err == nil && strings.Contains(string(said), "packs reloaded")
	}, 30*time.Second, 20*time.Millisecond, "reloaded")
	require.NoError(t, node.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-ended:
		require.NoError(t, err, "exit 0")
	case <-time.After(30 * time.Second):
		t.Fatal("the node did not stop")
	}
	said, err := os.ReadFile(log.Name())
	require.NoError(t, err)
	for _, line := range []string{"Received SIGTERM signal", "Worker shutdown complete"} {
		require.Contains(t, string(said), line)
	}
}

func untilReady(t *testing.T, address string, ended <-chan error) {
	t.Helper()
	c, err := client.New(address, "")
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var ready api.Readiness
		if c.Get(ctx, "/readyz", &ready) == nil && ready.Ready {
			return
		}
		select {
		case err := <-ended:
			t.Fatalf("the node ended: %v", err)
		case <-ctx.Done():
			t.Fatal("the node is not ready after 30 s")
		case <-tick.C:
		}
	}
}

func TestLogsAreJSONWithoutATerminal(t *testing.T) {
	t.Parallel()
	var human, machine strings.Builder
	loaded, err := config.Load(config.Sources{Environ: []string{"HOME=/h"}})
	require.NoError(t, err)
	nodeVerb{configuration{&app{err: &machine}}}.logger(loaded).Info("x", "k", 1)
	require.Contains(t, machine.String(), `"@message":"x"`)
	loaded.Log.Format = "human"
	nodeVerb{configuration{&app{err: &human}}}.logger(loaded).Info("x", "k", 1)
	require.Contains(t, human.String(), "[INFO]  troupe: x: k=1")
	require.Equal(t, hclog.Info, nodeVerb{configuration{&app{err: &human}}}.logger(loaded).GetLevel())
}

func TestConfigAndDoctor(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	r := call(t, "", []string{"TROUPE_DATA=" + data, "TROUPE_LISTE=x"}, "config", "--listen", "127.0.0.1:9")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "flag --listen")
	require.Contains(t, r.out, "env TROUPE_DATA")
	require.Contains(t, r.err, "did you mean TROUPE_LISTEN?")
	r = call(t, "", nil, "config", "--listen", "0.0.0.0:9", "--log-level", "loud")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "2 problems")

	environ := []string{"TROUPE_DATA=" + data, "PATH=" + os.Getenv("PATH")}
	r = call(t, "", environ, "doctor", "--listen", servers.OwnAddress())
	require.Equal(t, 0, r.code, r.out)
	require.Contains(t, r.out, "is writable")
	require.NoError(t, os.Chmod(data, 0o775))
	r = call(t, "", environ, "doctor", "--listen", servers.OwnAddress())
	require.Equal(t, 0, r.code, r.out)
	require.Contains(t, r.out, "takes it from the group at its start")
	info, err := os.Stat(data)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o775), info.Mode().Perm(), "the doctor changes nothing")
	require.NoError(t, os.Chmod(data, 0o777))
	r = call(t, "", environ, "doctor", "--listen", servers.OwnAddress())
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.out, "chmod -R go-rwx "+data)
	require.NoError(t, os.Chmod(data, 0o700))
	r = call(t, "", environ, "doctor", "--listen", servers.OwnAddress(), "--packs", filepath.Join(data, "none"), "-o", "json")
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.out, `"state": "fail"`)
	r = call(t, "", environ, "migrate")
	require.Equal(t, 0, r.code, r.err)
	require.FileExists(t, filepath.Join(data, storeName))
}

// The path below which a proxy shows the node can be given as its neighbours can: in the file, by the environment, and by a flag.
func TestTheBasePathAsAFlag(t *testing.T) {
	t.Parallel()
	env := []string{"TROUPE_HTTP_BASE_PATH=/env"}
	for _, c := range []struct{ args, want []string }{
		{nil, []string{"base_path", "/env", "TROUPE_HTTP_BASE_PATH"}},
		{[]string{"--base-path", "/ops/troupe"}, []string{"base_path", "/ops/troupe", "--base-path"}},
	} {
		r := call(t, "", env, append([]string{"config"}, c.args...)...)
		require.Zero(t, r.code, r.err)
		for _, want := range c.want {
			require.Contains(t, r.out, want)
		}
	}
	r := call(t, "", nil, "config", "--base-path", "troupe")
	require.Equal(t, 1, r.code, r.err)
	require.Contains(t, r.err, "http.base_path: must begin with a slash")
}
