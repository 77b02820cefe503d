package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// PrometheusServer is a private Prometheus, which scrapes each second.
type PrometheusServer struct {
	URL string

	home    *home
	process *process
}

// PrometheusSeries is one series of a query's answer, with its present value.
type PrometheusSeries struct {
	Labels map[string]string
	Value  float64 // may be no number: NaN
}

const (
	// queryWithin bounds a call to a Prometheus. It reads little, but the machine may be busy.
	queryWithin = 30 * time.Second
	answerMax   = 8 << 20 // bytes
)

// PrivatePrometheus starts a Prometheus for this test, which ends with the test. It scrapes the addresses (host:port) as one job, and
// evaluates the rules each second: the path of a file, or empty. Its log is shown if the test fails.
func PrivatePrometheus(t testing.TB, job, rules string, addresses ...string) *PrometheusServer {
	t.Helper()
	p, err := startPrometheus(job, rules, addresses)
	if err != nil {
		t.Fatalf("tests need a private Prometheus (on Debian: apt-get install prometheus): %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the private Prometheus:\n%s", p.home.tail("log"))
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func startPrometheus(job, rules string, addresses []string) (*PrometheusServer, error) {
	program, err := findProgram("prometheus")
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	h, err := newHome("prometheus", "")
	if err != nil {
		return nil, err
	}
	p := &PrometheusServer{URL: "http://" + Loopback(ports[0]), home: h}
	if err := p.start(program, Loopback(ports[0]), prometheusConfig(job, rules, addresses)); err != nil {
		log := h.tail("log")
		return nil, fmt.Errorf("%w\n%s", joinError(err, p.close()), log)
	}
	return p, nil
}

func prometheusConfig(job, rules string, addresses []string) string {
	var b strings.Builder
	b.WriteString("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n")
	if rules != "" {
		fmt.Fprintf(&b, "rule_files: [%q]\n", rules)
	}
	fmt.Fprintf(&b, "scrape_configs:\n  - job_name: %q\n    static_configs:\n      - targets:\n", job)
	for _, address := range addresses {
		fmt.Fprintf(&b, "          - %q\n", address)
	}
	return b.String()
}

func (p *PrometheusServer) start(program, listen, config string) error {
	if err := p.home.write("prometheus.yml", config, 0o644); err != nil {
		return err
	}
	process, err := launch{
		program: program, dir: p.home.dir, log: p.home.path("log"), endBy: "KILL",
		args: []string{
			"--config.file=" + p.home.path("prometheus.yml"), "--storage.tsdb.path=" + p.home.path("data"), "--web.listen-address=" + listen,
		},
	}.start(p.home.keeper)
	if err != nil {
		return err
	}
	p.process = process
	ready := func() bool {
		_, err := p.get("/-/ready", nil)
		return err == nil
	}
	if err := waitFor(startWithin, "a private Prometheus", func() bool { return !process.alive() || ready() }); err != nil {
		return err
	}
	if !process.alive() {
		return fmt.Errorf("the private Prometheus has ended")
	}
	return nil
}

func (p *PrometheusServer) close() error {
	var err error
	if p.process != nil {
		err = p.process.stop(syscall.SIGKILL, stopWithin)
	}
	return joinError(err, p.home.keeper.end())
}

func (p *PrometheusServer) get(path string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), queryWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	// A connection of its own for each call: none is left when the server has ended.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, answerMax))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("prometheus answered %s: %s", res.Status, body)
	}
	return body, nil
}

// Query returns the present values of an expression in PromQL that gives a vector.
func (p *PrometheusServer) Query(expr string) ([]PrometheusSeries, error) {
	body, err := p.get("/api/v1/query", url.Values{"query": {expr}})
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]json.RawMessage // the time, and the value as text
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	var all []PrometheusSeries
	for _, r := range answer.Data.Result {
		value, err := strconv.ParseFloat(strings.Trim(string(r.Value[1]), `"`), 64)
		if err != nil {
			return nil, fmt.Errorf("query %s: %w", expr, err)
		}
		all = append(all, PrometheusSeries{r.Metric, value})
	}
	return all, nil
}

// LabelValues returns the values of a label of the series that a selector matches.
func (p *PrometheusServer) LabelValues(label, selector string) ([]string, error) {
	body, err := p.get("/api/v1/label/"+label+"/values", url.Values{"match[]": {selector}})
	if err != nil {
		return nil, fmt.Errorf("values of label %s of %s: %w", label, selector, err)
	}
	var answer struct{ Data []string }
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("values of label %s of %s: %w", label, selector, err)
	}
	return answer.Data, nil
}
