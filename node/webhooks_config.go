package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/rules/webhook"
)

// Webhooks says which addresses the node may call to tell of outcomes, by which secrets the calls are signed, and who is told where
// neither the submission nor its action says so.
type Webhooks struct {
	Allow       []string      `yaml:"allow" help:"Addresses that the node may call to tell of outcomes: public (every public address, by https, at the ports 443 and 8443); a host's name, as in hooks.example or *.hooks.example; an address or a range, as in 10.1.0.0/16. Each of the latter may have a port at its end and http:// before it, for calls without TLS. An empty list: none."`
	Secrets     []string      `yaml:"secrets" help:"Secrets that sign the calls, each as NAME=env:VARIABLE or NAME=file:/PATH. A secret is whsec_ and 24 to 64 bytes in base64; a file is read at each call. All nodes need the same."`
	URL         string        `yaml:"url" secret:"url" help:"Address that is told of outcomes where neither the submission nor its action says who is. Empty: nobody."`
	On          []string      `yaml:"on" help:"The outcomes that webhooks.url is told of: completed, failed, timed_out, cancelled, abandoned. Empty: all."`
	Secret      string        `yaml:"secret" help:"Name of the secret that signs the calls to webhooks.url. Empty: they are not signed."`
	GiveUpAfter time.Duration `yaml:"give_up_after" range:"1..604800" unit:"s" help:"How long after an outcome a call that fails is repeated."`
	RetryBase   time.Duration `yaml:"retry_base" range:"0.05..3600" unit:"s" help:"Delay after the first call that fails. It grows threefold with each, up to two hours."`
}

func webhookDefaults() Webhooks {
	return Webhooks{Allow: []string{webhook.Public}, GiveUpAfter: webhook.AgeDefault, RetryBase: webhook.BaseDefault}
}

func (w Webhooks) withDefaults() Webhooks {
	d := webhookDefaults()
	if w.Allow == nil {
		w.Allow = d.Allow
	}
	orElse(&w.GiveUpAfter, d.GiveUpAfter)
	orElse(&w.RetryBase, d.RetryBase)
	return w
}

// WebhooksProblem is what is wrong with one key of Webhooks.
type WebhooksProblem struct{ Key, Text string }

// Problems names everything that is wrong with the settings.
func (w Webhooks) Problems() (problems []WebhooksProblem) {
	bad := func(key string, err error) {
		problems = append(problems, WebhooksProblem{"webhooks." + key, err.Error()})
	}
	policy, err := webhook.ParsePolicy(w.Allow)
	if err != nil {
		bad("allow", err)
	}
	secrets, err := w.sources()
	if err != nil {
		bad("secrets", err)
	}
	if w.URL == "" {
		if len(w.On) > 0 || w.Secret != "" {
			bad("url", fmt.Errorf("must be given together with webhooks.on and webhooks.secret"))
		}
		return problems
	}
	made, p := (&submit.Webhook{URL: w.URL, On: w.On, Secret: w.Secret}).Read()
	switch {
	case p != nil:
		bad("url", errors.New(p.Message))
	case made.URL == messages.WebhookNone:
		bad("url", fmt.Errorf("must be an address, or empty"))
	default:
		if err := checkWebhook(policy, secrets, made); err != nil {
			bad("url", err)
		}
	}
	return problems
}

// SecretVariables are the environment variables that hold secrets of webhooks.
func (w Webhooks) SecretVariables() (names []string) {
	secrets, err := w.sources()
	if err != nil {
		return nil
	}
	for _, s := range secrets {
		if s.Env != "" {
			names = append(names, s.Env)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// secretsMax bounds the secrets of webhooks.
const webhookSecretsMax = 1000

// sources reads where each secret's value is.
func (w Webhooks) sources() (map[string]pack.Secret, error) {
	if len(w.Secrets) > webhookSecretsMax {
		return nil, fmt.Errorf("%d secrets are given; the limit is %d", len(w.Secrets), webhookSecretsMax)
	}
	all := make(map[string]pack.Secret, len(w.Secrets))
	for i, entry := range w.Secrets {
		name, source, _ := strings.Cut(entry, "=")
		kind, at, _ := strings.Cut(source, ":")
		if _, p := (&submit.Webhook{URL: "https://x/", Secret: name}).Read(); p != nil || name == "" || at == "" || kind != "env" && kind != "file" {
			return nil, fmt.Errorf("entry %d must be NAME=env:VARIABLE or NAME=file:/PATH, and never a secret itself", i+1)
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("the name %s stands there twice", name)
		}
		if kind == "env" {
			all[name] = pack.Secret{Env: at}
		} else {
			all[name] = pack.Secret{File: at}
		}
	}
	return all, nil
}

// checkWebhook says why the node cannot call a webhook, or nil. What its host's name leads to is checked at each call.
func checkWebhook(policy webhook.Policy, secrets map[string]pack.Secret, w *messages.Webhook) error {
	target, err := webhook.Parse(w.URL)
	if err != nil {
		return err
	}
	if err := policy.Check(target); err != nil {
		return err
	}
	if _, known := secrets[w.Secret]; w.Secret != "" && !known {
		return fmt.Errorf("this node has no secret %q: name it in webhooks.secrets", w.Secret)
	}
	return nil
}

// webhook is the node's own webhook, where neither a submission nor its action says who is told; nil: nobody is.
func (w Webhooks) webhook() *messages.Webhook {
	if w.URL == "" {
		return nil
	}
	made, _ := (&submit.Webhook{URL: w.URL, On: w.On, Secret: w.Secret}).Read() // checked at the start
	return made
}
