package api

import (
	"encoding/json"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/rules/submit"
)

// DecodeSubmit reads and checks a body of POST /api/v1/executions that did not arrive over HTTP. There the answer
// cannot wait, so it refuses wait_seconds. An error is a *messages.Problem.
func DecodeSubmit(raw []byte) (submit.Request, error) {
	if len(raw) > BodyMax {
		return submit.Request{}, largeSubmit(tooLarge(BodyMax))
	}
	var body form.SubmitBody
	if err := decodeStrict(theBody, raw, &body); err != nil {
		return submit.Request{}, err
	}
	if body.WaitSeconds != nil {
		return body.Request, invalid("wait_seconds: nobody waits for this answer; leave it out and listen for the notice")
	}
	if p := body.Check(); p != nil {
		return body.Request, p
	}
	return body.Request, nil
}

// EncodeSubmit is the inverse of DecodeSubmit.
func EncodeSubmit(r submit.Request) ([]byte, error) { return json.Marshal(r) }
