package pack

import (
	"bytes"
	"cmp"
	"context"
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

// ErrUnknownAction means that no pack has the action.
var ErrUnknownAction = errors.New("no such action")

// fieldsMax bounds the reported problems of one set of parameters.
const fieldsMax = 20

// ParameterError holds the problems of parameters.
type ParameterError struct {
	Code     messages.Code // invalid_parameters, invalid_json or parameters_too_large
	Problems []string      // "/text: missing required property"; at most 20 and then how many more
}

func (e *ParameterError) Error() string { return "parameters: " + strings.Join(e.Problems, "; ") }

// Validate checks an action's parameters: size, depth, that they are one JSON object, and the action's schema. Missing
// parameters count as an empty object. Its work is bounded. Only checksMax checks by a schema run at once; others wait.
// The error is ErrUnknownAction, a *ParameterError, or ctx's error. It never contains values of parameters that the
// action keeps secret.
func (s *Set) Validate(ctx context.Context, ref string, params json.RawMessage) error {
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
	if p := messages.CheckJSON(params); p != nil {
		return &ParameterError{messages.CodeInvalidJSON, []string{p.Error()}}
	}
	if bytes.TrimLeft(params, " \t\r\n")[0] != '{' {
		return invalidParameters("must be a JSON object")
	}
	schema := s.schemas[ref]
	if schema == nil {
		return nil
	}
	if err := enter(ctx); err != nil {
		return err
	}
	defer leave()
	return judge(ctx, schema, action, params)
}

func judge(ctx context.Context, schema *checker, action *messages.Action, params json.RawMessage) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(params))
	if err != nil {
		return invalidParameters(clip(err.Error()))
	}
	if problem := checkNumbers(v, ""); problem != "" {
		return invalidParameters(problem)
	}
	wrong, err := schema.run(ctx, v)
	switch {
	case errors.Is(err, errSteps{}):
		return invalidParameters(err.Error())
	case err != nil:
		return err
	case len(wrong) == 0:
		return nil
	}
	return invalidParameters(leafTexts(wrong, action.Secrets)...)
}

// checkNumbers refuses numbers for which exact arithmetic needs too much memory: it would write out 1e1000000 in full.
func checkNumbers(v any, at string) string {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if problem := checkNumbers(value, at+pointer([]string{name})); problem != "" {
				return problem
			}
		}
	case []any:
		for i, value := range v {
			if problem := checkNumbers(value, at+"/"+strconv.Itoa(i)); problem != "" {
				return problem
			}
		}
	case json.Number:
		const exponentMax = 400
		text := strings.ToLower(v.String())
		_, exponent, _ := strings.Cut(text, "e")
		n, err := strconv.Atoi(cmp.Or(exponent, "0"))
		if len(text) > messages.JSONDigitsMax+len("-.e+") || err != nil || n > exponentMax || n < -exponentMax {
			return fmt.Sprintf("%s: the number is out of range: its exponent may be %d to %d", orRoot(at), -exponentMax, exponentMax)
		}
	}
	return ""
}

func invalidParameters(problems ...string) error {
	return &ParameterError{messages.CodeInvalidParameters, problems}
}

// leafTexts returns one text for each wrong field, sorted and bounded.
func leafTexts(wrong []leaf, secrets []string) []string {
	var texts []string
	for _, l := range wrong {
		texts = l.texts(secrets, texts)
	}
	return firstTexts(texts, len(wrong) >= leavesMax)
}

// firstTexts sorts the texts and keeps the first of them. It adds a text if there are more.
func firstTexts(texts []string, more bool) []string {
	slices.Sort(texts)
	texts = slices.Compact(texts)
	if len(texts) > fieldsMax {
		texts, more = texts[:fieldsMax], true
	}
	if more {
		texts = append(texts, "and more")
	}
	return texts
}

// fieldTexts does the same for the library's error about a schema.
func fieldTexts(err *jsonschema.ValidationError) []string {
	return firstTexts(leaves(err, nil), false)
}

// leaves collects the innermost causes: they name a field and its problem.
func leaves(err *jsonschema.ValidationError, into []string) []string {
	for _, cause := range err.Causes {
		into = leaves(cause, into)
	}
	if len(err.Causes) == 0 {
		into = leaf{err.InstanceLocation, err.ErrorKind}.texts(nil, into)
	}
	return into
}

func (l leaf) texts(secrets, into []string) []string {
	at := pointer(l.at)
	switch k := l.kind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			into = append(into, at+pointer([]string{name})+": missing required property")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			into = append(into, at+pointer([]string{name})+": unknown property")
		}
	default:
		into = append(into, orRoot(at)+": "+l.reason(secrets))
	}
	return into
}

// reason returns the validator's text without the place at its beginning and without a secret's value.
func (l leaf) reason(secrets []string) string {
	for _, name := range l.at {
		if slices.Contains(secrets, name) {
			return "is not valid (the value is secret)"
		}
	}
	switch k := l.kind.(type) {
	case *kind.FalseSchema:
		return "is not allowed"
	case words:
		return printable(string(k))
	case jsonschema.ErrorKind:
		text := (&jsonschema.ValidationError{ErrorKind: k}).Error()
		if _, after, found := strings.Cut(text, "': "); found && strings.HasPrefix(text, "at '") {
			text = after
		}
		return printable(clipLong(text))
	}
	return "is not valid"
}

// pointer returns a JSON pointer (RFC 6901), with long names cut.
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

// clipLong bounds a text that may contain a value from a file or a request.
func clipLong(s string) string {
	const limit = 300
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
