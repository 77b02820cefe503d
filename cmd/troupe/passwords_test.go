package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/cmd/troupe/config"
)

// addresses hold one password in every form that an address has, well-formed or not.
var addresses = []string{
	"postgres://u:hunter2-hunter2@127.0.0.1:1/db", "postgres://127.0.0.1:1/db?password=hunter2-hunter2",
	"amqp://u:hunter2-hunter2@127.0.0.1:1/", "amqp://u:%zz-hunter2-hunter2@127.0.0.1:1/", "amqp://u:x/hunter2-hunter2@127.0.0.1:1/",
	"host=127.0.0.1 port=1 user=u password=hunter2-hunter2", "host=127.0.0.1 password = 'hunter2-hunter2 and more'",
	"u:hunter2-hunter2@127.0.0.1", "http://u:hunter2-hunter2@127.0.0.1:1", "http://u:x/hunter2-hunter2@127.0.0.1:1",
}

// TestNoCallPrintsAPassword calls every verb that is given an address, by flag, environment and as an argument too many.
func TestNoCallPrintsAPassword(t *testing.T) {
	t.Parallel()
	for _, address := range addresses {
		for _, args := range [][]string{
			{"config", "--store", address}, {"config", "--broker", address}, {"config", "--store", address, "--broker", address},
			{"config", "-o", "json", "--store", "postgres://h/db", "--broker", address}, {"node", address},
			{"config", "--store", address, "--broker", "amqp://h/"}, {"pools", "--server", address}, {"pools", "extra", address},
			{"migrate", "--status", "--store", address}, {"get", address, "--server", "http://127.0.0.1:1"},
		} {
			r := call(t, "", nil, args...)
			require.NotContains(t, r.out+r.err, "hunter2", "%q", args)
		}
		for _, name := range []string{"TROUPE_STORE_URL", "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL", "TROUPE_SERVER"} {
			for _, verb := range []string{"config", "pools", "help"} {
				r := call(t, "", []string{name + "=" + address}, verb)
				require.NotContains(t, r.out+r.err, "hunter2", "%s %s", name+"="+address, verb)
			}
		}
		path := filepath.Join(t.TempDir(), "troupe.yaml")
		require.NoError(t, os.WriteFile(path, []byte("store: {url: \""+address+"\"}\n"), 0o600))
		r := call(t, "", nil, "config", "--config", path)
		require.NotContains(t, r.out+r.err, "hunter2", address)
	}
}

// TestFindingsAndLogsHoldNoPassword: what a library says of an address goes through both.
func TestFindingsAndLogsHoldNoPassword(t *testing.T) {
	t.Parallel()
	for _, address := range addresses[:4] {
		var out bytes.Buffer
		a := &app{out: &out, err: &out, output: "table"}
		configured := configuration{a}
		_ = doctor{configured}.report([]finding{fail("dial "+address, "see "+address).of("store")})
		a.output = "json"
		_ = doctor{configured}.report([]finding{fail("dial "+address, "see "+address).of("store")})
		for _, format := range []string{"human", "json"} {
			l := &config.Loaded{}
			l.Log.Format, l.Log.Level = format, "info"
			nodeVerb{configured}.logger(l).Info("dialled", "error", errors.New("dial "+address))
		}
		require.Contains(t, out.String(), "dialled")
		require.NotContains(t, out.String(), "hunter2")
	}
}

// TestLogLinesStayJSON: a password that stands in an escaped quote goes without its quote.
func TestLogLinesStayJSON(t *testing.T) {
	t.Parallel()
	for _, address := range slices.Concat(addresses[:7], []string{"host=a password=hunter2-hunter2", "PASSWORD=hunter2-hunter2"}) {
		var out bytes.Buffer
		l := &config.Loaded{}
		l.Log.Format, l.Log.Level = "json", "info"
		nodeVerb{configuration{&app{err: &out}}}.logger(l).Error("cannot connect", "error", fmt.Errorf("cannot parse %q: %w", address, errors.New("<no>\n"+address)))
		var line map[string]any
		require.NoError(t, json.Unmarshal(out.Bytes(), &line), "%s", out.String())
		require.Equal(t, "cannot connect", line["@message"])
		require.NotContains(t, out.String(), "hunter2")
	}
}
