package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/rules/webhook"
	"github.com/troupe-run/troupe/store"
)

const webhooksPath = "troupe/bridges/webhooks"

// webhooks tell of outcomes by HTTP.
type webhooks struct {
	*base
	values  *secrets // where the values of secrets come from
	bell    actors.WebhooksBell
	policy  webhook.Policy
	secrets map[string]pack.Secret
	own     *messages.Webhook // the node's; nil: there is none
}

// newWebhooks reads the settings, which were checked.
func newWebhooks(b *base, values *secrets) *webhooks {
	w := &webhooks{base: b, values: values, own: b.cfg.Webhooks.webhook()}
	w.policy, _ = webhook.ParsePolicy(b.cfg.Webhooks.Allow)
	w.secrets, _ = b.cfg.Webhooks.sources()
	return w
}

// prepare takes the secrets out of the node's environment, and checks each.
func (w *webhooks) prepare(context.Context) error {
	if err := w.values.env.take(w.cfg.Webhooks.SecretVariables()); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(w.secrets)) {
		if _, err := w.key(name); err != nil {
			return fmt.Errorf("webhooks.secrets: %w", err)
		}
	}
	return nil
}

// key is a secret as it is now. An error does not show it.
func (w *webhooks) key(name string) ([]byte, error) {
	source, known := w.secrets[name]
	if !known {
		return nil, fmt.Errorf("this node has no secret %q: name it in webhooks.secrets", name)
	}
	value, err := w.values.value(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	key, err := webhook.Key(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return key, nil
}

// check says why this node cannot call a webhook, or nil.
func (w *webhooks) check(hook *messages.Webhook) error {
	return checkWebhook(w.policy, w.secrets, hook)
}

// spec is the bridge. Count is told how each try ended.
func (w *webhooks) spec(count func(result string, took time.Duration)) actors.Child {
	caller := newWebhookCaller(w.policy, w.key, w.cfg.Version, w.logger.Named("webhooks"))
	return actors.NewWebhooks(actors.WebhooksConfig{
		System: w.system, Store: w.store, Call: caller.call, Bell: &w.bell, Logger: w.logger.Named("webhooks"), Count: count,
		Limits: webhook.Limits{Base: w.cfg.Webhooks.RetryBase, Tries: webhook.TriesMax, Age: w.cfg.Webhooks.GiveUpAfter},
	})
}

// ring says that there may be something to tell.
func (w *webhooks) ring() { w.bell.Ring(w.system, w.system.PID(webhooksPath)) }

// Webhook is who is told of an execution's outcome, and how far that is.
func (w *webhooks) Webhook(ctx context.Context, id messages.ExecutionID) (messages.WebhookRecord, error) {
	return w.store.Webhook(ctx, id)
}

// Webhooks are those that are due or were given up.
func (w *webhooks) Webhooks(ctx context.Context, q store.WebhookQuery) ([]messages.WebhookRecord, error) {
	return w.store.ListWebhooks(ctx, q)
}

// RepeatWebhook has one sent again that was told or given up.
func (w *webhooks) RepeatWebhook(ctx context.Context, id messages.ExecutionID) (messages.WebhookRecord, error) {
	r, err := w.store.RepeatWebhook(ctx, id)
	if err == nil {
		w.ring()
	}
	return r, store.AsProblem(err)
}
