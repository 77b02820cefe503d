package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

func (s *server) submitBatch(c *call) error {
	requests, err := c.decodeBatch()
	if err != nil {
		return err
	}
	trace := traceOf(c.r)
	for i := range requests {
		requests[i].CreatedBy, requests[i].Trace = c.caller, cmp.Or(requests[i].Trace, trace)
	}
	stored, err := s.Backend.Submit(c.r.Context(), requests)
	if err != nil {
		return err
	}
	view := form.BatchView{Executions: make([]form.BatchItem, len(stored))}
	for i := range stored {
		view.Executions[i] = form.BatchItem{ID: stored[i].Execution.ID, Status: stored[i].Execution.Status, Existing: stored[i].Existing}
	}
	return writeJSON(c.w, http.StatusCreated, &view)
}

// decodeBatch reads a form.BatchRequest from the request's body as it arrives. It stops at the first wrong entry and
// after the maximum number, so that the rest of a bad batch costs nothing.
func (c *call) decodeBatch() ([]submit.Request, error) {
	if err := mediaType(c.r, typeJSON, false); err != nil {
		return nil, err
	}
	var list []submit.Request
	err := c.body(func(from *bodyReader) (err error) {
		list, err = newBatchDecoder(from).decode()
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, c.enter()
}

// batchDecoder reads a batch one entry at a time.
type batchDecoder struct {
	dec  *json.Decoder
	from *bodyReader
	list []submit.Request
	raw  json.RawMessage // one entry
}

func newBatchDecoder(from *bodyReader) *batchDecoder {
	d := &batchDecoder{dec: json.NewDecoder(from), from: from}
	d.dec.UseNumber()
	return d
}

// theBody is the name of the whole body in problems.
const theBody = "the body"

func (d *batchDecoder) decode() ([]submit.Request, error) {
	if err := d.open('{', theBody, "an object"); err != nil {
		return nil, err
	}
	for seen := false; d.more(); seen = true {
		key, err := d.token()
		switch {
		case err != nil:
			return nil, d.problem(err)
		case key != "executions":
			return nil, unknownOf(fieldsOf(reflect.TypeFor[form.BatchRequest]()), fmt.Sprint(key))
		case seen:
			return nil, messages.Problemf(messages.CodeInvalidJSON, "%s has executions twice; send one list", theBody)
		}
		if err := d.entries(); err != nil {
			return nil, err
		}
	}
	if _, err := d.token(); err != nil { // end of the object
		return nil, d.problem(err)
	}
	end := int(d.dec.InputOffset())
	if _, err := d.token(); !errors.Is(err, io.EOF) {
		var p *messages.Problem
		if errors.As(err, &p) {
			return nil, p
		}
		return nil, goesOn(theBody, end)
	}
	if len(d.list) == 0 {
		return nil, invalid("executions must hold 1 to %d entries, got 0", messages.BatchMax)
	}
	return d.list, nil
}

// entries reads the list.
func (d *batchDecoder) entries() error {
	if err := d.open('[', "executions", "a list"); err != nil {
		return err
	}
	for d.more() {
		if len(d.list) == messages.BatchMax {
			return invalid("executions must hold 1 to %d entries, got more; send them in several batches", messages.BatchMax)
		}
		if err := d.entry(); err != nil {
			return inEntry(len(d.list), err)
		}
	}
	if _, err := d.token(); err != nil {
		return d.problem(err)
	}
	return nil
}

// entry reads and checks one entry.
func (d *batchDecoder) entry() error {
	d.part(BodyMax) // no entry is larger than a submission
	if err := d.dec.Decode(&d.raw); err != nil {
		if errors.Is(err, errPart) {
			return largeSubmit(tooLarge(BodyMax))
		}
		return d.problem(err)
	}
	var r submit.Request
	if err := decodeStrict("the entry", d.raw, &r); err != nil {
		return err
	}
	if p := r.Check(); p != nil {
		return p
	}
	if err := d.from.hold.add(entryCost + labelCost*int64(len(r.Labels))); err != nil {
		return err
	}
	d.list = append(d.list, r)
	return nil
}

// open reads the beginning of an object or a list.
func (d *batchDecoder) open(want json.Delim, what, kind string) error {
	switch t, err := d.token(); {
	case err != nil:
		return d.problem(err)
	case t != want:
		return invalid("%s: want %s, got %s", what, kind, kindOf(t))
	}
	return nil
}

// part bounds the next read.
func (d *batchDecoder) part(max int64) { d.from.part = d.dec.InputOffset() + max }

// gapMax bounds the whitespace between entries, and a name: the decoder scans them again with every piece that arrives.
const gapMax = 16 << 10

func (d *batchDecoder) token() (json.Token, error) {
	d.part(gapMax)
	return d.dec.Token()
}

func (d *batchDecoder) more() bool {
	d.part(gapMax)
	return d.dec.More()
}

// problem describes an error in terms of the request. The decoder counts its bytes itself.
func (d *batchDecoder) problem(err error) error {
	var p *messages.Problem
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, errPart):
		return invalid("%s has more than %d bytes of blanks, or of one name, between its entries; leave them out", theBody, gapMax)
	case errors.As(err, &syntax):
		return messages.Problemf(messages.CodeInvalidJSON, "%s is not JSON: %s (near byte %d)", theBody, clip(err.Error()), d.dec.InputOffset())
	}
	return decodeProblem(theBody, err)
}

// inEntry says which entry a problem is about.
func inEntry(i int, err error) error {
	var p *messages.Problem
	if !errors.As(err, &p) {
		return err
	}
	if status := StatusOf(p); status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || p.Code == messages.CodeBodyTooLarge {
		return err // it is about all bodies, or about this whole body
	}
	return &messages.Problem{Code: p.Code, Cause: p.Cause, Message: entry(i, p.Message), Details: map[string]any{"index": i, "cause": p.Details}}
}

// kindOf returns the JSON type that begins with a token.
func kindOf(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return "object"
		}
		return "array"
	case string:
		return "string"
	case bool:
		return "bool"
	case nil:
		return "null"
	}
	return "number"
}
