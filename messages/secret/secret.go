// Package secret hides passwords in texts that people see: in addresses of servers, as URLs or in the words of libpq, and in any
// other text. It decides by the text alone. Of an address that is not well-formed it hides too much rather than too little. The
// configuration, the errors of the adapters and the command line use it.
package secret

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
)

// Mask stands for what is hidden.
const Mask = "xxxxx"

// shortest is the length from which on a password is looked for in other texts: a shorter one would be found in any of them.
const shortest = 4

// Address is the address of a server without its passwords.
func Address(address string) string {
	shown, _ := split(address)
	return shown
}

// Without is a text, such as the error of a library, without the passwords of the address that it may repeat in parts.
func Without(text, address string) string {
	shown, hidden := split(address)
	if address != "" {
		text = strings.ReplaceAll(text, address, shown)
	}
	for _, password := range hidden {
		// The whole comes first; a parser that took it for something else shows the part up to a delimiter.
		forms := append([]string{password, decoded(password)}, strings.FieldsFunc(password, delimiter)...)
		for _, form := range forms {
			if len(form) >= shortest {
				text = strings.ReplaceAll(text, form, Mask)
			}
		}
	}
	return Text(text)
}

// delimiter reports whether a parser of addresses may end a part of one at the character.
func delimiter(r rune) bool { return strings.ContainsRune("/?#@:&' ", r) }

// split parts an address into what may be shown and what was hidden of it.
func split(address string) (shown string, hidden []string) {
	switch scheme, rest, ok := strings.Cut(address, "://"); {
	case ok:
		rest, hidden = inURL(rest)
		shown = scheme + "://" + rest
	case strings.Contains(address, "="):
		shown, hidden = inWords(address)
	default:
		shown, hidden = inUserinfo(address)
	}
	return Text(shown), hidden
}

// inURL hides the password before the host and those in the query.
func inURL(rest string) (shown string, hidden []string) {
	head, query, asks := strings.Cut(rest, "?")
	if asks && !strings.Contains(head, "@") && strings.Contains(query, "@") && strings.Contains(head, ":") && !portOnly(head) {
		// A password that holds a question mark which is not encoded.
		return inUserinfo(rest)
	}
	shown, hidden = inUserinfo(head)
	if !asks {
		return shown, hidden
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		if name, value, ok := strings.Cut(part, "="); ok && value != "" && telling(decoded(name)) {
			parts[i] = name + "=" + Mask
			hidden = append(hidden, value)
		}
	}
	return shown + "?" + strings.Join(parts, "&"), hidden
}

// portOnly reports whether the colon in HOST:PORT/PATH is a port's.
var port = regexp.MustCompile(`^(\[[^\]]*\]|[^:/]*):\d{1,5}(/|$)`)

func portOnly(head string) bool { return port.MatchString(head) }

// inUserinfo hides what stands between the first colon and the last at sign: a password may hold either without being encoded.
func inUserinfo(text string) (shown string, hidden []string) {
	end := strings.LastIndexByte(text, '@')
	if end < 0 {
		return text, nil
	}
	user, password, ok := strings.Cut(text[:end], ":")
	if !ok || password == "" {
		return text, nil
	}
	return user + ":" + Mask + text[end:], []string{password}
}

// inWords hides the passwords among libpq's words: name = value, with the value in single quotes where it holds spaces.
func inWords(text string) (shown string, hidden []string) {
	var b strings.Builder
	for text != "" {
		name, rest, ok := strings.Cut(text, "=")
		b.WriteString(name)
		if !ok {
			break
		}
		value := strings.TrimLeft(rest, " \t\r\n")
		b.WriteString("=" + rest[:len(rest)-len(value)])
		end := wordEnd(value)
		if value[:end] != "" && telling(name) {
			hidden = append(hidden, strings.Trim(value[:end], "'"))
			b.WriteString(Mask)
		} else {
			b.WriteString(value[:end])
		}
		text = value[end:]
	}
	return b.String(), hidden
}

// wordEnd is the length of the value that a text begins with. A quote that is not closed takes the rest.
func wordEnd(text string) int {
	quoted := strings.HasPrefix(text, "'")
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case quoted && c == '\'' && i > 0:
			return i + 1
		case !quoted && strings.IndexByte(" \t\r\n", c) >= 0:
			return i
		}
	}
	return len(text)
}

// telling reports whether a setting of that name is a secret.
func telling(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"pass", "pwd", "secret", "token"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

func decoded(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

var (
	inAnyURL = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s/?#:@"'<>` + "`" + `]*):([^\s"'<>` + "`" + `]+)@`)
	// A backslash takes the next character with it, but not a quote: that is the end of a text which stands quoted in another.
	inAnyWords = regexp.MustCompile(`(?i)(passw(?:or)?d\s*=\s*)('(?:\\.|[^'\\])*'|(?:\\(?:[^"]|$)|[^\s&"\\])+)`)
	inJSON     = regexp.MustCompile(`"(?:\\.|[^"\\])*"`)
	aPort      = regexp.MustCompile(`^\d{1,5}/`)
)

// Text is any text without the passwords of the addresses in it. It is the net below Address, for texts that others made.
func Text(text string) string {
	if strings.Contains(text, "://") && strings.Contains(text, "@") {
		text = inAnyURL.ReplaceAllStringFunc(text, func(found string) string {
			parts := inAnyURL.FindStringSubmatch(found)
			if aPort.MatchString(parts[2]) {
				return found // HOST:PORT/PATH with an at sign in the path
			}
			return parts[1] + ":" + Mask + "@"
		})
	}
	if strings.Contains(text, "=") {
		text = inAnyWords.ReplaceAllString(text, "${1}"+Mask)
	}
	return text
}

// JSON is a JSON text whose strings are without the passwords of the addresses in them. It stays JSON: each string is decoded
// before it is looked at, because a password ends elsewhere in what is escaped. Of any other text it is Text.
func JSON(text string) string {
	if !json.Valid([]byte(text)) {
		return Text(text)
	}
	return inJSON.ReplaceAllStringFunc(text, func(quoted string) string {
		var plain string
		if json.Unmarshal([]byte(quoted), &plain) != nil {
			return `"` + Mask + `"`
		}
		shown := Text(plain)
		if shown == plain {
			return quoted
		}
		encoded, err := json.Marshal(shown)
		if err != nil {
			return `"` + Mask + `"`
		}
		return string(encoded)
	})
}
