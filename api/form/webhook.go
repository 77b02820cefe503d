package form

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/webhook"
)

// WebhookView says who is told of an execution's outcome by HTTP, and how far that is. The address is shown without its query, and of
// the secret its name.
type WebhookView struct {
	Execution messages.ExecutionID  `json:"execution"`
	URL       string                `json:"url"`
	On        []string              `json:"on,omitempty" doc:"the outcomes that are told; missing: all"`
	Secret    string                `json:"secret,omitempty"`
	State     messages.WebhookState `json:"state" doc:"waiting (the execution has not ended), due, told, given_up, or passed (not an outcome that was asked for, or a retry is told instead)"`
	Tries     int                   `json:"tries"`
	Since     time.Time             `json:"since,omitzero" doc:"when it became due"`
	NextAt    time.Time             `json:"next_at,omitzero" doc:"when it is called next, while it is due"`
	Code      int                   `json:"code,omitempty" doc:"HTTP status of the last answer"`
	Error     string                `json:"error,omitempty" doc:"why the last call failed"`
	EndedAt   time.Time             `json:"ended_at,omitzero" doc:"when it was told or given up"`
}

// ViewWebhook shows a webhook.
func ViewWebhook(r *messages.WebhookRecord) WebhookView {
	var on []string
	for _, status := range r.On {
		on = append(on, status.String())
	}
	return WebhookView{
		Execution: r.Execution, URL: webhook.Shown(r.URL), On: on, Secret: r.Secret, State: r.State, Tries: r.Tries, Since: r.Since, NextAt: r.NextAt,
		Code: r.Code, Error: r.Error, EndedAt: r.EndedAt,
	}
}
