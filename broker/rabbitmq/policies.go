package rabbitmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Policy is a policy of the server's operators that cuts queues: it drops or ends what is in them, beside what Troupe declares.
type Policy struct {
	Name    string
	Pattern string   // of the names of queues
	Cuts    []string // "max-length 100", "message-ttl 5000"
}

// cuts are the keys of policies and operator policies by which a queue loses messages, or is deleted (the policies of RabbitMQ).
var cuts = []string{"delivery-limit", "expires", "max-length", "max-length-bytes", "message-ttl", "overflow"}

// The ports of the management plugin by default, and the bounds of a call.
const (
	managementPort    = "15672"
	managementPortTLS = "15671"
	managementTime    = 3 * time.Second
	managementMax     = 4 << 20
)

// Policies asks the server's management plugin, on its usual port and as the same user, for the policies that cut one of the queues. An
// error says why it cannot be asked: AMQP itself does not tell of policies.
func Policies(ctx context.Context, c Config, queues []string) ([]Policy, error) {
	t, err := newTarget(c)
	if err != nil {
		return nil, err
	}
	base, client := url.URL{Scheme: "http", Host: net.JoinHostPort(t.uri.Host, managementPort)}, &http.Client{Timeout: managementTime}
	if t.tls != nil {
		base.Scheme, base.Host = "https", net.JoinHostPort(t.uri.Host, managementPortTLS)
		client.Transport = &http.Transport{TLSClientConfig: t.tls}
	}
	defer client.CloseIdleConnections()
	return policiesAt(ctx, client, base.String(), t, queues)
}

func policiesAt(ctx context.Context, client *http.Client, base string, t target, queues []string) (found []Policy, err error) {
	for _, kind := range []string{"policies", "operator-policies"} {
		read, err := readPolicies(ctx, client, base+"/api/"+kind+"/"+url.PathEscape(t.uri.Vhost), t)
		if err != nil {
			return nil, err
		}
		for _, p := range read {
			pattern, err := regexp.Compile(p.Pattern) // the server's patterns have a wider grammar; one that is not Go's is passed over
			if cut := p.cutting(); len(cut) > 0 && err == nil && slices.ContainsFunc(queues, pattern.MatchString) {
				found = append(found, Policy{Name: p.Name, Pattern: p.Pattern, Cuts: cut})
			}
		}
	}
	return found, nil
}

// policy is one as the management plugin shows it.
type policy struct {
	Name       string                     `json:"name"`
	Pattern    string                     `json:"pattern"`
	ApplyTo    string                     `json:"apply-to"`
	Definition map[string]json.RawMessage `json:"definition"`
}

func (p *policy) cutting() (cut []string) {
	if p.ApplyTo == "exchanges" || p.ApplyTo == "streams" {
		return nil
	}
	for _, key := range cuts {
		if value, set := p.Definition[key]; set {
			cut = append(cut, key+" "+strings.Trim(string(value), `"`))
		}
	}
	return cut
}

func readPolicies(ctx context.Context, client *http.Client, address string, t target) (read []policy, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.SetBasicAuth(t.uri.Username, t.uri.Password)
	answer, err := client.Do(r)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s: the user needs the tag monitoring or policymaker", answer.Status)
	}
	return read, json.NewDecoder(io.LimitReader(answer.Body, managementMax)).Decode(&read)
}
