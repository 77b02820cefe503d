package submit

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func TestWebhooksThatCannotBe(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`:                                            "url is missing",
		`{"url":"ftp://x"}`:                             "must begin with https://",
		`{"url":"https://u:hunter2@x/"}`:                "user or a password",
		`{"url":"https://x/","on":["running"]}`:         "is no outcome",
		`{"url":"https://x/","on":["done"]}`:            "is no outcome",
		`{"url":"https://x/","on":["failed","failed"]}`: "twice",
		`{"url":"https://x/","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`: "never a secret itself",
		`{"url":"https://x/","secret":"a b"}`:                                    "never a secret itself",
		`{"url":"none","on":["failed"]}`:                                         "mean nothing",
	} {
		var w Webhook
		require.NoError(t, json.Unmarshal([]byte(body), &w))
		r := Request{ActionRef: "a.b", Webhook: &w}
		p := r.Check()
		require.NotNil(t, p, body)
		require.Contains(t, p.Message, want)
		require.NotContains(t, p.Message, "hunter2")
		require.NotContains(t, p.Message, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	}
}

// The submission's webhook takes the place of the action's, and that the node's. None stands for nobody at each.
func TestWhichWebhookWins(t *testing.T) {
	t.Parallel()
	of := func(url string) *messages.Webhook {
		if url == "" {
			return nil
		}
		return &messages.Webhook{URL: url}
	}
	for _, c := range []struct{ request, action, node, want string }{
		{"", "", "", ""},
		{"", "", "https://node/", "https://node/"},
		{"", "https://action/", "https://node/", "https://action/"},
		{"https://request/", "https://action/", "https://node/", "https://request/"},
		{"none", "https://action/", "https://node/", ""},
		{"", "none", "https://node/", ""},
		{"https://request/", "none", "", "https://request/"},
	} {
		r, a := Request{ActionRef: "a.b"}, messages.Action{Ref: "a.b", Webhook: of(c.action)}
		if c.request != "" {
			r.Webhook = &Webhook{URL: c.request, On: nil}
		}
		e, err := Complete(&r, &a, &Terms{Webhook: of(c.node)})
		require.NoError(t, err)
		require.Equal(t, of(c.want), e.Webhook, "%v", c)
	}
	refuse := &Terms{CheckWebhook: func(*messages.Webhook) error { return errors.New("no") }}
	_, err := Complete(&Request{ActionRef: "a.b"}, &messages.Action{Ref: "a.b", Webhook: of("https://x/")}, refuse)
	require.ErrorContains(t, err, ": action a.b: webhook: no")
	_, err = Complete(&Request{ActionRef: "a.b", Webhook: &Webhook{URL: "https://x/"}}, &messages.Action{Ref: "a.b"}, refuse)
	require.ErrorContains(t, err, ": webhook: no")
}
