package api

import "encoding/json"

// DecodeSubmit reads and checks the body of POST /api/v1/executions where it came another way than HTTP. The answer
// cannot wait there, so wait_seconds is refused. An error is a *messages.Problem.
func DecodeSubmit(raw []byte) (SubmitRequest, error) {
	if len(raw) > BodyMax {
		return SubmitRequest{}, largeSubmit(tooLarge(BodyMax))
	}
	var body SubmitBody
	if err := decodeStrict(theBody, raw, &body); err != nil {
		return SubmitRequest{}, err
	}
	if body.WaitSeconds != nil {
		return body.SubmitRequest, invalid("wait_seconds: nobody waits for this answer; leave it out and listen for the notice")
	}
	if p := body.Check(); p != nil {
		return body.SubmitRequest, p
	}
	return body.SubmitRequest, nil
}

// EncodeSubmit is the inverse of DecodeSubmit.
func EncodeSubmit(r SubmitRequest) ([]byte, error) { return json.Marshal(r) }
