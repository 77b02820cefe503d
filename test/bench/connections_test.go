package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/api"
)

// BenchmarkConnections compares ways to connect: 16 callers submit 20,000 executions one by one over HTTP to a node with the embedded
// store. Callers and node are one process, so its CPU time is that of both. KeptAlive is what Troupe's clients do. For HTTP2 the benchmark
// serves the node's own handler, since a node has no HTTP/2; all callers share one connection.
func BenchmarkConnections(b *testing.B) {
	b.Run("KeptAlive", func(b *testing.B) { connect(b, &http.Transport{MaxIdleConnsPerHost: 16}) })
	b.Run("New", func(b *testing.B) { connect(b, &http.Transport{DisableKeepAlives: true}) })
	b.Run("HTTP2", func(b *testing.B) {
		var clear http.Protocols
		clear.SetUnencryptedHTTP2(true)
		connect(b, &http.Transport{Protocols: &clear})
	})
}

func connect(b *testing.B, transport *http.Transport) {
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	for range b.N {
		n := start(b, nil)
		url := serve(b, api.New(api.Config{Backend: n.Backend()})) + "/api/v1/executions"
		before, began := cpu(), time.Now()
		bySixteen(b, func() error { return post(client, url, `{"action_ref":"core.noop"}`) })
		await(b, "idle", idle(n))
		b.ReportMetric(float64(callersCount())/time.Since(began).Seconds(), "executions/s")
		b.ReportMetric((cpu()-before).Seconds()*10_000/float64(callersCount()), "node-cpu-s/10k")
	}
}

// serve serves a handler with the node's bounds, over HTTP/1.1 and over HTTP/2 in clear, and returns its URL.
func serve(b *testing.B, handler http.Handler) string {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server := api.NewServer(ctx, handler, hclog.NewNullLogger())
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	listener = api.Bound(server, listener, api.DefaultConnections(), hclog.NewNullLogger())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	b.Cleanup(func() {
		cancel()
		if err := server.Close(); err != nil {
			b.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			b.Error(err)
		}
	})
	return url
}

func post(client *http.Client, url, body string) error {
	answer, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusCreated && answer.StatusCode != http.StatusAccepted {
		return fmt.Errorf("POST %s: %s", url, answer.Status)
	}
	return nil
}
