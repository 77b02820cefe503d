package pack

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/troupe-run/troupe/messages"
)

// ErrUnknownAction says that no pack has the action.
var ErrUnknownAction = errors.New("no such action")

// fieldsMax bounds how many problems of one set of parameters are told.
const fieldsMax = 20

// ParameterError is what is wrong with parameters.
type ParameterError struct {
	Code     messages.Code // invalid_parameters or parameters_too_large
	Problems []string      // "/text: missing required property"; at most 20 and then how many more
}

func (e *ParameterError) Error() string { return "parameters: " + strings.Join(e.Problems, "; ") }

// Validate judges parameters for an action: size, depth, that they are one JSON object, and the action's schema. No
// parameters are an empty object. The error is ErrUnknownAction or a *ParameterError. Values of parameters that the
// action keeps secret do not appear in it.
func (s *Set) Validate(ref string, params json.RawMessage) error {
	action, ok := s.Action(ref)
	if !ok {
		return fmt.Errorf("%w: %q", ErrUnknownAction, clip(ref))
	}
	if len(params) > messages.ParametersMax {
		return &ParameterError{messages.CodeTooLarge, []string{
			fmt.Sprintf("%d bytes, at most %d are allowed", len(params), messages.ParametersMax),
		}}
	}
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if err := CheckJSON(params); err != nil {
		return invalidParameters(err.Error())
	}
	if bytes.TrimLeft(params, " \t\r\n")[0] != '{' {
		return invalidParameters("must be a JSON object")
	}
	schema := s.schemas[ref]
	if schema == nil {
		return nil
	}
	return judge(schema, action, params)
}

func judge(schema *jsonschema.Schema, action *messages.Action, params json.RawMessage) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(params))
	if err != nil {
		return invalidParameters(clip(err.Error()))
	}
	if problem := checkNumbers(v); problem != "" {
		return invalidParameters(problem)
	}
	err = schema.Validate(v)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return invalidParameters(clip(err.Error()))
	}
	return invalidParameters(fieldTexts(invalid, action.Secrets)...)
}

// checkNumbers refuses numbers that cost the validator's exact arithmetic more memory than they are worth: it writes
// 1e1000000 out in full.
func checkNumbers(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			if problem := checkNumbers(value); problem != "" {
				return problem
			}
		}
	case []any:
		for _, value := range v {
			if problem := checkNumbers(value); problem != "" {
				return problem
			}
		}
	case json.Number:
		const digitsMax, exponentMax = 400, 400
		text := strings.ToLower(v.String())
		_, exponent, _ := strings.Cut(text, "e")
		n, err := strconv.Atoi(cmp.Or(exponent, "0"))
		if len(text) > digitsMax || err != nil || n > exponentMax || n < -exponentMax {
			return fmt.Sprintf("the number %s is out of range", clip(text))
		}
	}
	return ""
}

func invalidParameters(problems ...string) error {
	return &ParameterError{messages.CodeInvalidParameters, problems}
}

// fieldTexts is one text per field that is wrong, sorted and bounded.
func fieldTexts(err *jsonschema.ValidationError, secrets []string) []string {
	texts := leaves(err, secrets, nil)
	slices.Sort(texts)
	texts = slices.Compact(texts)
	if len(texts) > fieldsMax {
		more := len(texts) - fieldsMax
		texts = append(texts[:fieldsMax], fmt.Sprintf("and %d more", more))
	}
	return texts
}

// leaves walks to the causes that have no causes: those name a field and what is wrong with it.
func leaves(err *jsonschema.ValidationError, secrets []string, into []string) []string {
	if len(err.Causes) > 0 {
		for _, cause := range err.Causes {
			into = leaves(cause, secrets, into)
		}
		return into
	}
	at := pointer(err.InstanceLocation)
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			into = append(into, at+pointer([]string{name})+": missing required property")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			into = append(into, at+pointer([]string{name})+": unknown property")
		}
	default:
		into = append(into, orRoot(at)+": "+reason(err, secrets))
	}
	return into
}

// reason is the validator's own words, without the place that they begin with and without a secret's value.
func reason(err *jsonschema.ValidationError, secrets []string) string {
	for _, name := range err.InstanceLocation {
		if slices.Contains(secrets, name) {
			return "is not valid (the value is secret)"
		}
	}
	if _, ok := err.ErrorKind.(*kind.FalseSchema); ok {
		return "is not allowed"
	}
	text := err.Error()
	if _, after, found := strings.Cut(text, "': "); found && strings.HasPrefix(text, "at '") {
		text = after
	}
	return printable(clipLong(text))
}

// pointer is a JSON pointer (RFC 6901), with long names cut short.
func pointer(tokens []string) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(printable(clip(token))))
	}
	return b.String()
}

func orRoot(pointer string) string {
	if pointer == "" {
		return "/"
	}
	return pointer
}

// clipLong bounds a text that may hold a foreign value.
func clipLong(s string) string {
	const limit = 300
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
