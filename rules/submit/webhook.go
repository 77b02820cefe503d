package submit

import (
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/webhook"
)

// Webhook says who is told of the outcome by HTTP. It takes the place of the action's and of the node's.
type Webhook struct {
	URL    string   `json:"url" doc:"https:// address that is called with the outcome; none: nobody is told, whatever the action or the node says"`
	On     []string `json:"on,omitempty" doc:"the outcomes that are told: completed, failed, timed_out, cancelled, abandoned; left out: all"`
	Secret string   `json:"secret,omitempty" doc:"name of the secret of webhooks.secrets that signs the call"`
}

func (r *Request) checkWebhook() *messages.Problem {
	if r.Webhook == nil {
		return nil
	}
	_, p := r.Webhook.Read()
	return p
}

// Read checks a webhook by itself, without a node's rules.
func (w *Webhook) Read() (*messages.Webhook, *messages.Problem) {
	made := &messages.Webhook{URL: w.URL, Secret: w.Secret}
	if w.URL == messages.WebhookNone {
		if len(w.On) > 0 || w.Secret != "" {
			return nil, invalid("webhook: its url is none, so on and secret mean nothing; leave them out")
		}
		return made, nil
	}
	if w.URL == "" {
		return nil, invalid("webhook: url is missing; give the address to call, or none")
	}
	if _, err := webhook.Parse(w.URL); err != nil {
		return nil, invalid("webhook: url: %s", err)
	}
	for _, text := range w.On {
		s, err := messages.ParseStatus(text)
		if err != nil || !s.Terminal() {
			return nil, invalid("webhook: on: %q is no outcome; want completed, failed, timed_out, cancelled or abandoned", clip(text))
		}
		if slices.Contains(made.On, s) {
			return nil, invalid("webhook: on: %s stands there twice", s)
		}
		made.On = append(made.On, s)
	}
	slices.Sort(made.On)
	return made, checkSecretName(w.Secret)
}

func checkSecretName(name string) *messages.Problem {
	if len(name) > messages.WebhookSecretMax || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" ||
		strings.HasPrefix(name, "whsec_") {
		return invalid("webhook: secret must be the name of a secret in the node's webhooks.secrets, of up to %d letters, digits, hyphens, underscores and dots, and never a secret itself",
			messages.WebhookSecretMax)
	}
	return nil
}

// chooseWebhook is the submission's webhook, the action's, or the node's; nil: there is none.
func chooseWebhook(r *Request, a *messages.Action, t *Terms) (*messages.Webhook, error) {
	chosen, from := t.Webhook, ""
	if a.Webhook != nil {
		chosen, from = a.Webhook, "action "+a.Ref+": "
	}
	if r.Webhook != nil {
		read, p := r.Webhook.Read()
		if p != nil {
			return nil, p
		}
		chosen, from = read, ""
	}
	if chosen == nil || chosen.URL == messages.WebhookNone {
		return nil, nil
	}
	if t.CheckWebhook != nil {
		if err := t.CheckWebhook(chosen); err != nil {
			return nil, unfit("%swebhook: %s", from, err)
		}
	}
	return chosen, nil
}
