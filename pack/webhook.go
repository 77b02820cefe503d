package pack

import (
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// webhook reads who is told of the action's outcomes by HTTP; nil: it does not say.
func (f *fields) webhook() *messages.Webhook {
	r := f.sub("webhook")
	if r == nil {
		return nil
	}
	given := submit.Webhook{URL: r.text("url", messages.WebhookURLMax, false), Secret: r.text("secret", messages.WebhookSecretMax, false)}
	given.On = r.texts("on", len(messages.Statuses()), nameMax, false)
	r.done()
	if given.URL == "" && r.nodes["url"] != nil {
		return nil // noted already
	}
	made, p := given.Read()
	if p != nil {
		f.fail(r.node, "%s", p.Message)
		return nil
	}
	return made
}
